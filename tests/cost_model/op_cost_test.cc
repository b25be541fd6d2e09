#include "cost_model/op_cost.h"

#include <gtest/gtest.h>

#include "cost_model/spec/device_peak.h"
#include "cost_model/spec/op_list.h"
#include "tests/cost_model/test_jobs.h"

namespace tessera::cost_model {
namespace {

using base::MatMulLayout;
using base::OpKind;
using base::OpRecord;

RankDevice RoundDevice() { return MakeRankDevice(RoundCluster(), spec::Precision::kBf16, 8); }

OpRecord MatMul(int64_t m, int64_t n, int64_t k) {
  return {.kind = OpKind::kMatMul,
          .dims = {m, n, k, static_cast<int64_t>(MatMulLayout::kNT), 0, 0}};
}

TEST(OpCostTest, ALargeProductIsBoundByArithmetic) {
  // 2 * 10000^3 = 2e12 FLOPs at 100 TFLOP/s; its 600 MB would take 0.6 ms.
  EXPECT_DOUBLE_EQ(OpSeconds(MatMul(10000, 10000, 10000), RoundDevice()), 0.02);
}

TEST(OpCostTest, AThinProductIsBoundByMemory) {
  // 10000 x 1 times 1 x 10000: 2 (10000 + 10000 + 1e8) bytes at 1 TB/s.
  EXPECT_DOUBLE_EQ(OpSeconds(MatMul(10000, 10000, 1), RoundDevice()), 200.04e6 / 1e12);
}

TEST(OpCostTest, EfficiencyAndLaunchOverheadSlowAnOperation) {
  spec::ClusterSpec cluster = RoundCluster();
  cluster.device.matmul_efficiency = {{1e12, 0.5}};
  cluster.device.launch_overhead_s = 1e-3;
  const RankDevice device = MakeRankDevice(cluster, spec::Precision::kBf16, 8);
  EXPECT_DOUBLE_EQ(OpSeconds(MatMul(10000, 10000, 10000), device), 0.041);
}

TEST(OpCostTest, ANormMovesItsInputAndItsOutput) {
  const OpRecord norm{.kind = OpKind::kLayerNormForward, .dims = {1000, 1000}};
  EXPECT_DOUBLE_EQ(OpSeconds(norm, RoundDevice()), 4e6 / 1e12);
}

TEST(OpCostTest, UnfusedAttentionAddsItsPassesOverTheScores) {
  OpRecord attention{.kind = OpKind::kAttentionForward, .dims = {1, 1000, 10, 10, 100, 0}};
  attention.dims[5] = static_cast<int64_t>(base::AttentionStats::kProbabilities);
  // Products: 4 * 10 * 1000^2 * 100 = 4e9 FLOPs. Memory: q, k, v and the output, 4 * 1e6 elements,
  // and four passes over 10 * 1000^2 scores, 2 bytes each.
  EXPECT_DOUBLE_EQ(OpSeconds(attention, RoundDevice()), 4e9 / 100e12 + 88e6 / 1e12);
}

// A product of 10 heads over 1000 x 1000 scores, 100 wide, is 2e9 FLOPs; a fused kernel leaves out
// half of it. Forward two products; backward four, and the scores again where they were not kept.
TEST(OpCostTest, AttentionCountsItsProducts) {
  OpRecord attention{.kind = OpKind::kAttentionForward, .dims = {1, 1000, 10, 10, 100, 0}};
  EXPECT_DOUBLE_EQ(spec::FlopsOf(attention), 2 * 1e9);
  attention.kind = OpKind::kAttentionBackward;
  EXPECT_DOUBLE_EQ(spec::FlopsOf(attention), 5 * 1e9);
  attention.dims[5] = static_cast<int64_t>(base::AttentionStats::kProbabilities);
  EXPECT_DOUBLE_EQ(spec::FlopsOf(attention), 4 * 2e9);
}

TEST(RankDeviceTest, RanksOfAPoolShareCoresAndBandwidth) {
  spec::ClusterSpec pool = RoundCluster();
  pool.shared_compute_units = 4;
  const RankDevice alone = MakeRankDevice(pool, spec::Precision::kBf16, 1);
  EXPECT_DOUBLE_EQ(alone.matmul_flops_per_s, 400e12);
  EXPECT_DOUBLE_EQ(alone.memory_bandwidth_bytes_per_s, 1e12);
  const RankDevice one_of_two = MakeRankDevice(pool, spec::Precision::kBf16, 2);
  EXPECT_DOUBLE_EQ(one_of_two.matmul_flops_per_s, 200e12);
  EXPECT_DOUBLE_EQ(one_of_two.memory_bandwidth_bytes_per_s, 0.5e12);
  // More ranks than cores: a core each, taken in turns.
  EXPECT_DOUBLE_EQ(MakeRankDevice(pool, spec::Precision::kBf16, 8).matmul_flops_per_s, 100e12);
  // The peak behind MFU is the pool's, shared by its ranks.
  EXPECT_DOUBLE_EQ(spec::PeakFlopsPerDevice(pool, spec::Precision::kBf16, 8), 50e12);
}

}  // namespace
}  // namespace tessera::cost_model
