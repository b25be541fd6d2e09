// Attention, element-wise operations and the host, where a cluster describes its kernels.
#include "cost_model/kernel_time.h"

#include <gtest/gtest.h>

#include "cost_model/block_cost.h"
#include "cost_model/job_costs.h"
#include "cost_model/op_cost.h"
#include "tests/cost_model/test_jobs.h"

namespace tessera::cost_model {
namespace {

using base::OpKind;
using base::OpRecord;

// 100 units of 1 TFLOP/s, 1 TB/s, 1e12 exponentials a second.
spec::ClusterSpec KernelCluster() {
  spec::ClusterSpec cluster = RoundCluster();
  cluster.device.kernels = spec::KernelSpec{.num_compute_units = 100,
                                            .largest_tile_rows = 128,
                                            .largest_tile_columns = 128,
                                            .smallest_tile = 64,
                                            .scores_per_s = 1e12};
  return cluster;
}

RankDevice Device(const spec::RuntimeSpec& runtime = {}) {
  return MakeRankDevice(KernelCluster(), spec::Precision::kBf16, 8, runtime);
}

OpRecord Attention(OpKind kind, int64_t sequence, base::AttentionStats stats) {
  return {.kind = kind, .dims = {1, sequence, 100, 100, 100, static_cast<int64_t>(stats)}};
}

TEST(KernelTimeTest, FusedAttentionComputesTheScoresBelowTheDiagonal) {
  // 100 heads of 2048 x 2048 scores, of which the causal half and half of the blocks on the
  // diagonal: 17/32. Each 4 * 100 FLOPs at 100 TFLOP/s and an exponential: 5e-12 s. 16 blocks a
  // head, 16 waves and half a wave to even out.
  const double scores = 100 * 2048.0 * 2048 * 17 / 32;
  const auto stats = base::AttentionStats::kLogSumExp;
  const double forward_s = OpSeconds(Attention(OpKind::kAttentionForward, 2048, stats), Device());
  EXPECT_NEAR(forward_s, scores * 5e-12 * 16.5 / 16, 1e-9);
  // Backward: 10 * 100 FLOPs and two exponentials.
  const double backward_s = OpSeconds(Attention(OpKind::kAttentionBackward, 2048, stats), Device());
  EXPECT_NEAR(backward_s, scores * 12e-12 * 16.5 / 16, 1e-9);
}

TEST(KernelTimeTest, UnfusedAttentionPassesOverTheScores) {
  const OpRecord forward =
      Attention(OpKind::kAttentionForward, 1024, base::AttentionStats::kProbabilities);
  const double scores = 100 * 1024.0 * 1024;
  const KernelTime fused_softmax = OpTime(forward, Device());
  EXPECT_EQ(fused_softmax.num_kernels, 3);
  spec::RuntimeSpec runtime;
  runtime.attention_dropout = true;  // probabilities in and out, a byte of mask
  const KernelTime dropout = OpTime(forward, Device(runtime));
  EXPECT_NEAR(dropout.device_s - fused_softmax.device_s, scores * 5 / 1e12, 1e-9);
  // In fp32 scaled scores, masked ones and the softmax in and out, the mask; 2 + 4 bytes there and
  // back. The fused kernel moves 2 + 2.
  runtime.fused_softmax = false;
  const KernelTime unfused = OpTime(forward, Device(runtime));
  EXPECT_NEAR(unfused.device_s - dropout.device_s, scores * (3 * 8 + 1 + 2 * 6 - 4) / 1e12, 1e-9);
  EXPECT_EQ(unfused.num_kernels, 8);
  // A fused one that is not written for 100 heads, or for so many keys, does not run.
  runtime.fused_softmax = true;
  runtime.fused_softmax_heads_multiple = 3;
  EXPECT_EQ(OpTime(forward, Device(runtime)).num_kernels, 8);
  runtime.fused_softmax_heads_multiple = 4;
  EXPECT_EQ(OpTime(forward, Device(runtime)).num_kernels, 4);
  runtime.fused_softmax_max_keys = 1023;
  EXPECT_EQ(OpTime(forward, Device(runtime)).num_kernels, 8);
  // Never as fast as a kernel that keeps the scores to itself.
  EXPECT_GT(fused_softmax.device_s,
            OpSeconds(Attention(OpKind::kAttentionForward, 1024, base::AttentionStats::kLogSumExp),
                      Device()));
}

TEST(KernelTimeTest, WhatIsNotFusedMovesMoreBytesInMoreKernels) {
  spec::RuntimeSpec apart;
  apart.fused_norm = apart.fused_activation = apart.fused_residual = false;
  apart.fused_rope = apart.fused_cross_entropy = apart.product_epilogues = false;
  apart.attention_copies = apart.hidden_dropout = true;
  for (const OpRecord& record :
       {OpRecord{OpKind::kLayerNormForward, {1000, 1000}},
        OpRecord{OpKind::kRmsNormBackward, {1000, 1000, 1}},
        OpRecord{OpKind::kResidualAdd, {1000, 1000, 1}},
        OpRecord{OpKind::kSwiGluForward, {1000, 1000}},
        OpRecord{OpKind::kSwiGluBackward, {1000, 1000}}, OpRecord{OpKind::kRope, {1000, 10, 100}},
        OpRecord{OpKind::kCrossEntropySumExp, {1000, 1000}},
        OpRecord{OpKind::kCrossEntropyGrad, {1000, 1000}},
        OpRecord{OpKind::kMatMul, {1000, 1000, 1000, 1, 0, 2}},
        OpRecord{OpKind::kAttentionForward, {1, 1000, 10, 10, 100, 0}}}) {
    const KernelTime fused = OpTime(record, Device());
    const KernelTime unfused = OpTime(record, Device(apart));
    EXPECT_GT(unfused.device_s, fused.device_s) << base::ToString(record);
    EXPECT_GT(unfused.num_kernels, fused.num_kernels) << base::ToString(record);
  }
}

// A gradient read and written where masks are drawn again; else the norm that follows has it.
TEST(KernelTimeTest, ADroppedGradientIsOnePassOfItsOwn) {
  const OpRecord dropout{OpKind::kDropout, {1000, 1000}};
  EXPECT_NEAR(OpTime(dropout, Device()).device_s, 1e6 * 4 / 1e12, 1e-12);
  spec::RuntimeSpec keeps_masks;
  keeps_masks.hidden_dropout = true;
  EXPECT_EQ(OpTime(dropout, Device(keeps_masks)).device_s, 0);
}

// Eight layers of two branches, a pass over 1024 x 1024 16-bit elements each and two over the
// embeddings, 4 MB both ways: our engine. Programs of autograd keep two masks a layer.
TEST(KernelTimeTest, DropoutCostsPassesOrMasks) {
  Job job = RoundJob(1);
  job.cluster = KernelCluster();
  const auto step_of = [](const Job& of) {
    return JobCosts(of).BlocksOf({}, spec::Recompute::kNone);
  };
  const BlockCosts without = step_of(job);
  job.training.dropout = {.hidden = 0.1, .embedding = 0.1};
  const BlockCosts with = step_of(job);
  const double pass_s = 1024.0 * 1024 * 4 / 1e12;
  EXPECT_NEAR(with.layers[0].backward_s - without.layers[0].backward_s, 2 * pass_s, 1e-9);
  EXPECT_NEAR(with.layers[0].forward_s, without.layers[0].forward_s, 1e-9);
  EXPECT_NEAR(with.embedding.forward_s - without.embedding.forward_s, pass_s, 1e-9);
  EXPECT_FALSE(JobCosts(job).job().runtime.hidden_dropout);
  job.runtime.autograd = true;
  EXPECT_TRUE(JobCosts(job).job().runtime.hidden_dropout);
}

TEST(KernelTimeTest, MoreBytesAreNeverFaster) {
  double previous_s = 0;
  for (const int64_t rows : {1, 10, 1000, 100000}) {
    const double seconds = OpSeconds({OpKind::kLayerNormForward, {rows, 1024}}, Device());
    EXPECT_GT(seconds, previous_s);
    previous_s = seconds;
  }
}

// A pass of small operations takes as long as the host launches them; one of large operations does
// not wait.
TEST(KernelTimeTest, ThePassOfASmallModelIsBoundByTheHost) {
  Job job = RoundJob(1);
  job.cluster = KernelCluster();
  job.cluster.device.kernels->host_s_per_kernel = 1e-3;
  spec::ParallelSpec parallel;
  const spec::VirtualStage layer{.num_layers = 1};
  spec::PerForm<int> one{};
  one[0] = 1;
  const BlockCost slow_host = StageCost(JobCosts(job).BlocksOf(parallel), one, layer);
  // Norm, product, attention, product, residual, norm, product, product, residual.
  EXPECT_NEAR(slow_host.Forward(), 9e-3, 1e-9);
  job.runtime.host_time_factor = 0;  // captured graphs
  const BlockCost no_host = StageCost(JobCosts(job).BlocksOf(parallel), one, layer);
  EXPECT_LT(no_host.Forward(), 1e-3);
  job.runtime.host_time_factor = 1e-4;
  const BlockCost fast_host = StageCost(JobCosts(job).BlocksOf(parallel), one, layer);
  EXPECT_DOUBLE_EQ(fast_host.Forward(), no_host.Forward());
  EXPECT_DOUBLE_EQ(fast_host.Backward(), no_host.Backward());
}

TEST(KernelTimeTest, OddHeadsSlowTheProductsOfUnfusedAttentionDown) {
  const auto seconds = [](double factor, int64_t head_dim) {
    spec::ClusterSpec cluster = KernelCluster();
    cluster.device.kernels->misaligned_batch_time_factor = factor;
    OpRecord record =
        Attention(OpKind::kAttentionForward, 2048, base::AttentionStats::kProbabilities);
    record.dims[4] = head_dim;
    return OpSeconds(record, MakeRankDevice(cluster, spec::Precision::kBf16, 8, {}));
  };
  EXPECT_GT(seconds(7, 150), seconds(1, 150));
  EXPECT_NEAR(seconds(13, 150) - seconds(7, 150), seconds(7, 150) - seconds(1, 150), 1e-9);
  EXPECT_EQ(seconds(7, 152), seconds(1, 152));  // 19 times 16 bytes
}

// A layer that starts idle waits for its first kernel and, where the host is slow, ends with the
// last kernel's run after its launch.
TEST(KernelTimeTest, ALayerThatStartsIdleWaitsForItsFirstKernel) {
  Job job = RoundJob(1);
  job.cluster = KernelCluster();
  job.runtime.layers_start_idle = true;
  const spec::ParallelSpec parallel;
  const auto forward_s = [&](double host_s) {
    job.cluster.device.kernels->host_s_per_kernel = host_s;
    return JobCosts(job).BlocksOf(parallel).layers[0].Forward();
  };
  const double device_s = forward_s(0);
  EXPECT_NEAR(forward_s(1e-9), device_s + 1e-9, 1e-12);
  EXPECT_GT(forward_s(1e-3), 9e-3);  // nine kernels
  EXPECT_LT(forward_s(1e-3), 9e-3 + device_s);
}

}  // namespace
}  // namespace tessera::cost_model
