#include "cost_model/collective_cost.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <vector>

#include "cost_model/step_parts.h"
#include "tests/cost_model/test_jobs.h"

namespace tessera::cost_model {
namespace {

constexpr double kGigabyte = 1e9;

// 2 (g - 1) / g of 1 GB over 100 GB/s, and 2 (g - 1) messages.
TEST(CollectiveCostTest, ARingInsideANodeTakesTheTextbookTime) {
  spec::ClusterSpec cluster = RoundCluster();
  cluster.intra_node.latency_s = 1e-3;
  const Network network = MakeNetwork(cluster, 8);
  EXPECT_DOUBLE_EQ(AllReduceSeconds(kGigabyte, Place(8, 1, 8), network),
                   2 * 7.0 / 8 * 0.01 + 14e-3);
  EXPECT_DOUBLE_EQ(AllGatherSeconds(kGigabyte, Place(8, 1, 8), network), 7.0 / 8 * 0.01 + 7e-3);
}

// Sixteen ranks on two nodes: 7/8 GB over each link inside; then each of the eight local ranks
// sends half of its eighth, all eight together 0.5 GB over the node's 40 GB/s; and back.
TEST(CollectiveCostTest, AcrossNodesTheLevelsAddUp) {
  const Network network = MakeNetwork(RoundCluster(), 16);
  EXPECT_DOUBLE_EQ(AllReduceSeconds(kGigabyte, Place(16, 1, 16), network),
                   2 * (7.0 / 8 * 0.01 + 0.5 / 40));
}

// Data-parallel groups of eight tensor ranks: each sends 0.5 GB, 4 GB leave the node at 40 GB/s.
TEST(CollectiveCostTest, GroupsOfOneNodeShareItsNics) {
  const Network network = MakeNetwork(RoundCluster(), 16);
  EXPECT_DOUBLE_EQ(ReduceScatterSeconds(kGigabyte, Place(2, 8, 16), network), 0.5 * 8 / 40);
}

TEST(CollectiveCostTest, AFasterLinkIsNeverSlower) {
  for (const int size : {2, 4, 8, 16, 64}) {
    for (const int64_t stride : {1, 2, 8}) {
      double previous_s = 1e9;
      for (const double bandwidth : {1e9, 1e10, 1e11}) {
        spec::ClusterSpec cluster = RoundCluster();
        cluster.inter_node.bandwidth_bytes_per_s = bandwidth;
        cluster.intra_node.bandwidth_bytes_per_s = 10 * bandwidth;
        const int world_size = static_cast<int>(size * stride);
        const double seconds = AllReduceSeconds(kGigabyte, Place(size, stride, world_size),
                                                MakeNetwork(cluster, world_size));
        EXPECT_LT(seconds, previous_s) << "size " << size << " stride " << stride;
        previous_s = seconds;
      }
    }
  }
}

TEST(CollectiveCostTest, AGroupOfOneCostsNothing) {
  EXPECT_EQ(AllReduceSeconds(kGigabyte, Place(1, 1, 8), MakeNetwork(RoundCluster(), 8)), 0);
}

// Everything that a cluster can have, in round numbers.
spec::ClusterSpec RichCluster() {
  spec::ClusterSpec cluster = RoundCluster();
  cluster.intra_node.latency_s = 4e-6;
  cluster.inter_node.latency_s = 10e-6;
  cluster.collectives.protocols = {
      {.bandwidth_share = 0.25, .intra_node_latency_s = 1e-6, .inter_node_latency_s = 4e-6}};
  cluster.collectives.overhead_s = 5e-6;
  cluster.collectives.tree_efficiency = 0.9;
  cluster.collectives.nvls_efficiency = 0.7;
  cluster.collectives.nvls_latency_s = 6e-6;
  return cluster;
}

TEST(CollectiveCostTest, SmallMessagesTakeTheProtocolOfLeastLatency) {
  spec::ClusterSpec cluster = RichCluster();
  cluster.collectives.tree_efficiency = cluster.collectives.nvls_efficiency = 0;
  const Network network = MakeNetwork(cluster, 8);
  // 8 bytes: 14 messages of 1 us; 1 GB: 14 of 4 us at full bandwidth.
  EXPECT_NEAR(AllReduceSeconds(8, Place(8, 1, 8), network), 5e-6 + 14e-6, 1e-9);
  EXPECT_DOUBLE_EQ(AllReduceSeconds(kGigabyte, Place(8, 1, 8), network),
                   5e-6 + 14 * 4e-6 + 2 * 7.0 / 8 * 0.01);
}

// Sixteen ranks on two nodes, 14 messages in chains of eight and 2 between nodes; each node sends
// the tensor twice, at 0.9 of 40 GB/s; on 4 nodes 4 messages.
TEST(CollectiveCostTest, TreesOverNodesHaveTheDepthOfALogarithm) {
  spec::ClusterSpec cluster = RichCluster();
  cluster.collectives.protocols.clear();
  const auto tree = [&](int size) {
    return AllReduceSecondsBy(CollectiveAlgorithm::kTree, kGigabyte, Place(size, 1, size),
                              MakeNetwork(cluster, size));
  };
  EXPECT_DOUBLE_EQ(tree(16), 5e-6 + 14 * 4e-6 + 2 * 10e-6 + 2.0 / 36);
  EXPECT_DOUBLE_EQ(tree(32), 5e-6 + 14 * 4e-6 + 4 * 10e-6 + 2.0 / 36);
}

// NVLink SHARP over eight: 9/8 of the bytes over a link, 0.7 of 100 GB/s, up and down once.
TEST(CollectiveCostTest, SwitchesThatAddMoveTheTensorOnceOverALink) {
  const Network network = MakeNetwork(RichCluster(), 8);
  EXPECT_DOUBLE_EQ(
      AllReduceSecondsBy(CollectiveAlgorithm::kNvls, kGigabyte, Place(8, 1, 8), network),
      5e-6 + 2 * 6e-6 + 9.0 / 8 / 70);
  EXPECT_EQ(AllReduceSecondsBy(CollectiveAlgorithm::kNvls, kGigabyte, Place(8, 8, 64),
                               MakeNetwork(RichCluster(), 64)),
            std::numeric_limits<double>::infinity());  // one rank a node
}

TEST(CollectiveCostTest, TheCheapestAlgorithmCounts) {
  const spec::ClusterSpec cluster = RichCluster();
  for (const int size : {2, 4, 8, 16, 64, 512}) {
    for (const int64_t stride : {1, 2, 8}) {
      const int world_size = static_cast<int>(size * stride);
      const Network network = MakeNetwork(cluster, world_size);
      const GroupPlacement placement =
          PlaceGroup({.size = size, .stride = stride}, world_size, cluster);
      for (const double bytes : {8.0, 1e6, 1e9}) {
        double least_s = std::numeric_limits<double>::infinity();
        for (const auto algorithm :
             {CollectiveAlgorithm::kRing, CollectiveAlgorithm::kTree,
              CollectiveAlgorithm::kHierarchical, CollectiveAlgorithm::kNvls}) {
          least_s = std::min(least_s, AllReduceSecondsBy(algorithm, bytes, placement, network));
        }
        EXPECT_EQ(AllReduceSeconds(bytes, placement, network), least_s);
      }
    }
  }
}

// Without help from switches at least 2 (g - 1) / g of the bytes leave each rank, and 2 (n - 1) / n
// each node.
TEST(CollectiveCostTest, AnAllReduceTakesNoLessThanItsBandwidthBound) {
  spec::ClusterSpec cluster = RichCluster();
  cluster.collectives.nvls_efficiency = 0;
  for (const int size : {2, 4, 8, 16, 32, 256}) {
    for (const int64_t stride : {1, 2, 4, 8}) {
      const int world_size = static_cast<int>(size * stride);
      const Network network = MakeNetwork(cluster, world_size);
      const GroupPlacement placement =
          PlaceGroup({.size = size, .stride = stride}, world_size, cluster);
      const double nodes = placement.num_nodes;
      const double seconds = AllReduceSeconds(kGigabyte, placement, network);
      if (placement.num_nodes == 1) {
        EXPECT_GT(seconds, 2.0 * (size - 1) / size * kGigabyte / 100e9) << size << " by " << stride;
      } else {
        EXPECT_GT(seconds, 2 * (nodes - 1) / nodes * kGigabyte * placement.groups_per_node / 40e9)
            << size << " by " << stride;
      }
      // An all-reduce is no faster than its halves apart.
      EXPECT_GE(seconds, ReduceScatterSeconds(kGigabyte, placement, network));
    }
  }
}

TEST(CollectiveCostTest, OnOneNodeHierarchyIsARing) {
  const Network network = MakeNetwork(RoundCluster(), 8);
  EXPECT_DOUBLE_EQ(
      AllReduceSeconds(kGigabyte, Place(8, 1, 8), network),
      AllReduceSecondsBy(CollectiveAlgorithm::kRing, kGigabyte, Place(8, 1, 8), network));
}

// Rings over both levels at once: 2 x 63/64 of 1 GB out of each node's 40 GB/s.
TEST(CollectiveCostTest, RingsOverManyNodesRunAtTheSpeedOfTheirNics) {
  const Network network = MakeNetwork(RoundCluster(), 64);
  EXPECT_DOUBLE_EQ(AllReduceSeconds(kGigabyte, Place(64, 1, 64), network), 2 * 63.0 / 64 / 40);
}

// Sixteen ranks, 1/16 GB for each: 7 parts over the link at 100 GB/s, and at the same time 8 parts
// of each of eight ranks out of the node.
TEST(CollectiveCostTest, AllToAllUsesBothLevelsAtOnce) {
  const Network network = MakeNetwork(RoundCluster(), 16);
  EXPECT_DOUBLE_EQ(AllToAllSeconds(kGigabyte, Place(16, 1, 16), network), 8 * 8.0 / 16 / 40);
  EXPECT_DOUBLE_EQ(AllToAllSeconds(kGigabyte, Place(8, 1, 8), MakeNetwork(RoundCluster(), 8)),
                   7.0 / 8 / 100);
}

TEST(CollectiveCostTest, RingsOfABroadcastPassOnTheWholeTensor) {
  EXPECT_DOUBLE_EQ(BroadcastSeconds(kGigabyte, Place(8, 1, 8), MakeNetwork(RoundCluster(), 8)),
                   0.01);
}

// Two nodes of eight ranks: one ring's neighbours cross, or all eight rings'.
TEST(CollectiveCostTest, NeighboursExchangeOverTheSlowestHop) {
  const Network network = MakeNetwork(RoundCluster(), 16);
  EXPECT_DOUBLE_EQ(RingExchangeSeconds(kGigabyte, Place(4, 1, 16), network), 0.01);
  EXPECT_DOUBLE_EQ(RingExchangeSeconds(kGigabyte, Place(16, 1, 16), network), 1.0 / 40);
  EXPECT_DOUBLE_EQ(RingExchangeSeconds(kGigabyte, Place(2, 8, 16), network), 8.0 / 40);
}

// Pods of four nodes. Of a ring's hops through a pod one in four leaves it: half-blocked links
// suffice. Eight groups with a rank in each pod have all their hops there: half the speed.
TEST(CollectiveCostTest, OversubscriptionMeetsThoseWhoLeaveTheirPod) {
  spec::ClusterSpec cluster = RoundCluster();
  const auto seconds = [&](int size, int64_t stride) {
    return AllReduceSeconds(kGigabyte, PlaceGroup({.size = size, .stride = stride}, 128, cluster),
                            MakeNetwork(cluster, 128));
  };
  const double neighbours_s = seconds(128, 1);
  const double strided_s = seconds(4, 32);
  cluster.fabric = {.pod_nodes = 4, .oversubscription = 2};
  EXPECT_DOUBLE_EQ(seconds(128, 1), neighbours_s);
  EXPECT_DOUBLE_EQ(seconds(4, 32), 2 * strided_s);
  const Network network = MakeNetwork(cluster, 128);
  EXPECT_DOUBLE_EQ(InterNodeTransferSeconds(kGigabyte, 8, network, true),
                   2 * InterNodeTransferSeconds(kGigabyte, 8, network, false));
}

TEST(CollectiveCostTest, MoreOfAnythingIsNeverSlower) {
  const auto all = [](const spec::ClusterSpec& cluster, int size, int64_t stride, double bytes) {
    const int world_size = static_cast<int>(size * stride);
    const Network network = MakeNetwork(cluster, world_size);
    const GroupPlacement placement =
        PlaceGroup({.size = size, .stride = stride}, world_size, cluster);
    return std::vector<double>{
        AllReduceSeconds(bytes, placement, network), AllGatherSeconds(bytes, placement, network),
        AllToAllSeconds(bytes, placement, network), BroadcastSeconds(bytes, placement, network),
        RingExchangeSeconds(bytes, placement, network)};
  };
  for (const int size : {2, 8, 16, 128}) {
    for (const int64_t stride : {1, 4, 8}) {
      for (const double bytes : {1e3, 1e6, 1e9}) {
        const std::vector<double> before = all(RichCluster(), size, stride, bytes);
        spec::ClusterSpec better[5];
        for (spec::ClusterSpec& cluster : better) cluster = RichCluster();
        better[0].intra_node.bandwidth_bytes_per_s *= 2;
        better[1].inter_node.bandwidth_bytes_per_s *= 2;
        better[2].nics_per_node *= 2;
        better[3].inter_node.latency_s /= 2;
        better[4].collectives.protocols.push_back(
            {.bandwidth_share = 0.9, .intra_node_latency_s = 2e-6, .inter_node_latency_s = 6e-6});
        for (const spec::ClusterSpec& cluster : better) {
          const std::vector<double> after = all(cluster, size, stride, bytes);
          for (size_t i = 0; i < before.size(); ++i) {
            EXPECT_LE(after[i], before[i] * (1 + 1e-12)) << i << " " << size << " by " << stride;
          }
        }
      }
    }
  }
}

}  // namespace
}  // namespace tessera::cost_model
