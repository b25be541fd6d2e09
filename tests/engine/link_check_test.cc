// Links and collectives that are right are found right; a result that a rank loses is found wrong.
#include "engine/train/link_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/testing/faulty_device.h"
#include "tests/testing/run_ranks.h"

namespace tessera::engine {
namespace {

using base::OpKind;
using ::testing::HasSubstr;

constexpr LinkCheckSizes kSmallSizes = {.large_elements = 10'000, .num_repetitions = 2};

LinkCheck Check(int num_ranks, const testing::LosesResult& loses_on_last_rank) {
  LinkCheck check;
  testing::RunRanks(num_ranks, [&](Communicator& world) {
    const bool is_last = world.rank() + 1 == num_ranks;
    const auto device =
        is_last ? testing::MakeLossyDevice(world, loses_on_last_rank) : MakeRankDevice({}, world);
    const LinkCheck mine = CheckLinks(*device, world, kSmallSizes);
    if (world.rank() == 0) check = mine;
  });
  return check;
}

TEST(LinkCheckTest, SoundLinksGiveRightResultsAndRates) {
  for (const int num_ranks : {2, 3}) {
    const LinkCheck check = Check(num_ranks, [](const auto&) { return false; });
    EXPECT_FALSE(check.has_wrong());
    EXPECT_EQ(check.num_ranks, num_ranks);
    EXPECT_EQ(check.collectives.size(), 6U);
    EXPECT_EQ(check.pairs.size(), static_cast<size_t>(num_ranks * (num_ranks - 1) / 2));
    for (const CollectiveCheck& of : check.collectives) {
      EXPECT_EQ(of.wrong, "") << ToString(of.kind);
      EXPECT_GT(of.bandwidth_bytes_per_s, 0);
      EXPECT_GT(of.latency_s, 0);
    }
  }
}

TEST(LinkCheckTest, AWrongResultIsFoundAndItsOperationAndRankNamed) {
  for (const OpKind kind : {OpKind::kAllReduce, OpKind::kReduceScatter, OpKind::kAllGather,
                            OpKind::kBroadcast, OpKind::kAllToAll, OpKind::kRecv}) {
    // Its second one: the large one, as each is tested small first.
    const LinkCheck check = Check(3, [kind](const testing::CollectiveCall& call) {
      return call.kind == kind && call.group.starts_with("world") && call.index == 1;
    });
    EXPECT_TRUE(check.has_wrong()) << ToString(kind);
    for (const CollectiveCheck& of : check.collectives) {
      const bool is_faulty = of.kind == kind || (kind == OpKind::kRecv && of.kind == OpKind::kSend);
      if (is_faulty) {
        EXPECT_THAT(of.wrong, HasSubstr("rank 2 got -1 instead of")) << ToString(kind);
      } else {
        EXPECT_EQ(of.wrong, "") << ToString(of.kind) << " beside " << ToString(kind);
      }
    }
  }
}

TEST(LinkCheckTest, ExpectationsAreThoseOfTheLinksThatTheRanksTake) {
  spec::ClusterSpec cluster;
  cluster.devices_per_node = 4;
  cluster.intra_node = {.bandwidth_bytes_per_s = 100e9, .latency_s = 2e-6, .efficiency = 0.8};
  cluster.inter_node = {.bandwidth_bytes_per_s = 25e9, .latency_s = 5e-6};
  cluster.collectives.overhead_s = 10e-6;
  LinkCheck check{.num_ranks = 4,
                  .collectives = {{.kind = OpKind::kAllReduce, .wrong = ""},
                                  {.kind = OpKind::kAllGather, .wrong = ""},
                                  {.kind = OpKind::kSend, .wrong = ""}},
                  .pairs = {}};
  SetExpectations(cluster, check);
  EXPECT_DOUBLE_EQ(check.collectives[0].expected_bandwidth_bytes_per_s, 80e9);
  EXPECT_DOUBLE_EQ(check.collectives[0].expected_latency_s, 10e-6 + 6 * 2e-6);  // 2 (n - 1)
  EXPECT_DOUBLE_EQ(check.collectives[1].expected_latency_s, 10e-6 + 3 * 2e-6);
  EXPECT_DOUBLE_EQ(check.collectives[2].expected_latency_s, 10e-6 + 2e-6);
  check.num_ranks = 8;
  SetExpectations(cluster, check);
  EXPECT_DOUBLE_EQ(check.expected_bandwidth_bytes_per_s, 25e9);
}

}  // namespace
}  // namespace tessera::engine
