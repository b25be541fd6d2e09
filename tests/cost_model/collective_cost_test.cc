#include "cost_model/collective_cost.h"

#include <gtest/gtest.h>

#include "cost_model/step_parts.h"
#include "tests/cost_model/test_jobs.h"

namespace tessera::cost_model {
namespace {

constexpr double kGigabyte = 1e9;

GroupPlacement Place(int size, int64_t stride, int world_size) {
  return PlaceGroup({.size = size, .stride = stride}, world_size, RoundCluster());
}

TEST(PlaceGroupTest, NeighboursFillTheNode) {
  const GroupPlacement placement = Place(8, 1, 64);
  EXPECT_EQ(placement.ranks_per_node, 8);
  EXPECT_EQ(placement.num_nodes, 1);
}

TEST(PlaceGroupTest, AStrideOfANodePutsEachRankOnItsOwn) {
  const GroupPlacement placement = Place(8, 8, 64);
  EXPECT_EQ(placement.ranks_per_node, 1);
  EXPECT_EQ(placement.num_nodes, 8);
  EXPECT_EQ(placement.groups_per_node, 8);  // one for each rank of the node
}

TEST(PlaceGroupTest, AShorterStridePutsSeveralOnANode) {
  const GroupPlacement placement = Place(16, 2, 64);
  EXPECT_EQ(placement.ranks_per_node, 4);
  EXPECT_EQ(placement.num_nodes, 4);
  EXPECT_EQ(placement.groups_per_node, 2);
}

TEST(PlaceGroupTest, AGroupAstrideTwoNodesUsesTheNetwork) {
  EXPECT_EQ(Place(3, 1, 24).num_nodes, 2);  // ranks 6, 7, 8
}

TEST(PlaceGroupTest, APoolIsOneNode) {
  spec::ClusterSpec pool = RoundCluster();
  pool.shared_compute_units = 2;
  EXPECT_EQ(PlaceGroup({.size = 32, .stride = 1}, 32, pool).num_nodes, 1);
}

TEST(CrossesNodesTest, StagesOfATensorNodeLieOnDifferentNodes) {
  EXPECT_TRUE(CrossesNodes({.size = 4, .stride = 8}, 0, 32, RoundCluster()));
}

TEST(CrossesNodesTest, HalfANodeAStageCrossesAtEverySecondBoundary) {
  const RankGroup pipeline{.size = 4, .stride = 4};  // stages of ranks 0-3, 4-7, 8-11, 12-15
  EXPECT_FALSE(CrossesNodes(pipeline, 0, 16, RoundCluster()));
  EXPECT_TRUE(CrossesNodes(pipeline, 1, 16, RoundCluster()));
  EXPECT_FALSE(CrossesNodes(pipeline, 2, 16, RoundCluster()));
}

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

TEST(LayoutGroupsTest, StridesFollowTheRankOrder) {
  spec::ParallelSpec parallel;
  parallel.tensor_parallel_size = 4;
  parallel.data_parallel_size = 2;
  parallel.pipeline_parallel_size = 8;
  const LayoutGroups usual = MakeLayoutGroups(parallel);
  EXPECT_EQ(usual.tensor.stride, 1);
  EXPECT_EQ(usual.data.stride, 4);
  EXPECT_EQ(usual.pipeline.stride, 8);
  parallel.rank_order = "tp-cp-ep-pp-dp";
  const LayoutGroups pipeline_inside = MakeLayoutGroups(parallel);
  EXPECT_EQ(pipeline_inside.pipeline.stride, 4);
  EXPECT_EQ(pipeline_inside.data.stride, 32);
}

}  // namespace
}  // namespace tessera::cost_model
