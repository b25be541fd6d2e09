// Where groups sit, held against ranks counted one by one.
#include "cost_model/network.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tests/cost_model/test_jobs.h"

namespace tessera::cost_model {
namespace {

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

spec::ClusterSpec Rack() {
  spec::ClusterSpec rack = RoundCluster();
  rack.devices_per_node = 4;
  rack.nics_per_node = 4;
  rack.devices_per_domain = 72;
  return rack;
}

TEST(PlaceGroupTest, AGroupOf64StaysInsideADomainOf72) {
  for (const int world_size : {64, 128, 256, 1024}) {
    EXPECT_EQ(PlaceGroup({.size = 64, .stride = 1}, world_size, Rack()).num_nodes, 1) << world_size;
    EXPECT_EQ(PlaceGroup({.size = 8, .stride = 8}, world_size, Rack()).num_nodes, 1) << world_size;
  }
  EXPECT_EQ(PlaceGroup({.size = 72, .stride = 1}, 144, Rack()).num_nodes, 1);
}

TEST(RanksPerNodeTest, JobsTakeAsManyDevicesOfEachDomain) {
  EXPECT_EQ(RanksPerNode(Rack(), 48), 48);
  EXPECT_EQ(RanksPerNode(Rack(), 128), 64);
  EXPECT_EQ(RanksPerNode(Rack(), 144), 72);
  EXPECT_EQ(RanksPerNode(Rack(), 96), 48);
  EXPECT_EQ(RanksPerNode(RoundCluster(), 128), 8);
}

TEST(MakeNetworkTest, NicsOfADomainAreThoseOfItsHosts) {
  // 16 trays of 64 ranks, four NICs of 10 GB/s each.
  const Network network = MakeNetwork(Rack(), 128);
  EXPECT_DOUBLE_EQ(InterNodeBandwidth(network, 64), 10e9);
  EXPECT_DOUBLE_EQ(InterNodeBandwidth(network, 128), 5e9);
}

TEST(MakeNetworkTest, OnRailsADeviceUsesTheNicBesideIt) {
  spec::ClusterSpec cluster = RoundCluster();  // four NICs of 10 GB/s for eight devices
  EXPECT_DOUBLE_EQ(InterNodeBandwidth(MakeNetwork(cluster, 16), 1), 40e9);
  cluster.fabric.rail_nics = true;
  EXPECT_DOUBLE_EQ(InterNodeBandwidth(MakeNetwork(cluster, 16), 1), 10e9);
  EXPECT_DOUBLE_EQ(InterNodeBandwidth(MakeNetwork(cluster, 16), 8), 5e9);
}

// Four NICs of 10 GB/s for eight devices. Pairs {0, 4}, {1, 5}, {2, 6}, {3, 7} begin at two NICs,
// fours {0, 2, 4, 6}, {1, 3, 5, 7} at one; eight single ranks and the whole node have them all.
TEST(MakeNetworkTest, GroupsThatShareRailsLeaveByTheNicOfTheirFirstDevice) {
  spec::ClusterSpec cluster = RoundCluster();
  const auto bandwidth = [&](int size, int64_t stride) {
    return GroupNicBandwidth(MakeNetwork(cluster, 64),
                             PlaceGroup({.size = size, .stride = stride}, 64, cluster));
  };
  EXPECT_DOUBLE_EQ(bandwidth(16, 4), 10e9);  // two ranks a node, four such groups share 40 GB/s
  cluster.fabric.rail_nics = true;
  EXPECT_DOUBLE_EQ(bandwidth(16, 4), 2 * 10e9 / 4);
  EXPECT_DOUBLE_EQ(bandwidth(32, 2), 1 * 10e9 / 2);
  EXPECT_DOUBLE_EQ(bandwidth(8, 8), 40e9 / 8);
  EXPECT_DOUBLE_EQ(bandwidth(64, 1), 40e9);
  cluster.nics_per_node = 8;  // each device its own: rings pass through all of a group's
  EXPECT_DOUBLE_EQ(bandwidth(16, 4), 2 * 10e9);
}

TEST(CrossesBlocksTest, StagesOfATensorNodeLieOnDifferentNodes) {
  EXPECT_TRUE(CrossesBlocks({.size = 4, .stride = 8}, 0, 32, 8));
}

TEST(CrossesBlocksTest, HalfANodeAStageCrossesAtEverySecondBoundary) {
  const RankGroup pipeline{.size = 4, .stride = 4};  // stages of ranks 0-3, 4-7, 8-11, 12-15
  EXPECT_FALSE(CrossesBlocks(pipeline, 0, 16, 8));
  EXPECT_TRUE(CrossesBlocks(pipeline, 1, 16, 8));
  EXPECT_FALSE(CrossesBlocks(pipeline, 2, 16, 8));
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

// What counting ranks says of all groups of a kind.
struct Counted {
  int most_nodes = 0;
  bool is_even = true;          // every group has as many ranks on each node that it touches
  int most_groups_on_node = 0;  // of those that cross nodes
};

Counted Count(const spec::RankLayout& layout, spec::Axis axis, int node) {
  Counted counted;
  std::set<std::vector<int>> seen;
  std::map<int, int> crossing_by_node;
  int ranks_on_a_node = 0;
  for (int rank = 0; rank < layout.world_size(); ++rank) {
    const std::vector<int> group = layout.GroupOf(rank, axis);
    if (!seen.insert(group).second) continue;
    std::map<int, int> ranks_by_node;
    for (const int member : group) ++ranks_by_node[member / node];
    counted.most_nodes = std::max(counted.most_nodes, static_cast<int>(ranks_by_node.size()));
    for (const auto& [on, ranks] : ranks_by_node) {
      if (ranks_on_a_node == 0) ranks_on_a_node = ranks;
      counted.is_even = counted.is_even && ranks == ranks_on_a_node;
      if (ranks_by_node.size() > 1) ++crossing_by_node[on];
    }
  }
  for (const auto& [on, groups] : crossing_by_node) {
    counted.most_groups_on_node = std::max(counted.most_groups_on_node, groups);
  }
  return counted;
}

void ExpectAsCounted(const spec::ParallelSpec& parallel, spec::Axis axis) {
  const spec::RankLayout layout(parallel);
  const int world_size = layout.world_size();
  const spec::ClusterSpec cluster = RoundCluster();
  const RankGroup group = GroupAlong(layout, axis);
  const GroupPlacement placement = PlaceGroup(group, world_size, cluster);
  const int node = world_size <= cluster.devices_per_node ? world_size : cluster.devices_per_node;
  const Counted counted = Count(layout, axis, node);
  const std::string what = std::string(spec::ToString(axis)) + " of tp " +
                           std::to_string(parallel.tensor_parallel_size) + " cp " +
                           std::to_string(parallel.context_parallel_size) + " ep " +
                           std::to_string(parallel.expert_parallel_size) + " dp " +
                           std::to_string(parallel.data_parallel_size) + " pp " +
                           std::to_string(parallel.pipeline_parallel_size) + " by " +
                           parallel.rank_order;
  EXPECT_EQ(placement.num_nodes, counted.most_nodes) << what;
  if (!counted.is_even) return;
  EXPECT_EQ(placement.ranks_per_node * placement.num_nodes, group.size) << what;
  if (counted.most_nodes > 1) {
    EXPECT_EQ(placement.groups_per_node, counted.most_groups_on_node) << what;
  }
}

TEST(PlaceGroupTest, EveryGroupOfEveryRankOrderSitsWhereCountingPutsIt) {
  constexpr spec::Axis kAxes[] = {
      spec::Axis::kTensor,     spec::Axis::kContext,    spec::Axis::kData,
      spec::Axis::kGradient,   spec::Axis::kPipeline,   spec::Axis::kExpert,
      spec::Axis::kExpertData, spec::Axis::kShard,      spec::Axis::kShardReplica,
      spec::Axis::kWorld,      spec::Axis::kExpertShard};
  const char* const orders[] = {"tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp", "pp-tp-cp-ep-dp",
                                "dp-cp-ep-pp-tp", "tp-pp-cp-ep-dp", "cp-pp-ep-dp-tp"};
  const int sizes[][4] = {{2, 2, 4, 2},  {4, 1, 8, 2}, {8, 2, 2, 2}, {16, 1, 2, 2}, {1, 4, 4, 4},
                          {2, 1, 16, 1}, {3, 1, 4, 2}, {1, 2, 6, 2}, {2, 2, 3, 1}};
  for (const char* const order : orders) {
    for (const auto& size : sizes) {
      spec::ParallelSpec parallel;
      parallel.rank_order = order;
      parallel.tensor_parallel_size = size[0];
      parallel.context_parallel_size = size[1];
      parallel.data_parallel_size = size[2];
      parallel.pipeline_parallel_size = size[3];
      if (size[2] % 2 == 0) parallel.expert_parallel_size = 2;
      if (size[2] % 2 == 0) parallel.zero_group_size = 2;
      for (const spec::Axis axis : kAxes) ExpectAsCounted(parallel, axis);
    }
  }
}

TEST(PlaceGroupTest, NodesBehindTheSameSwitchesAreCounted) {
  spec::ClusterSpec cluster = RoundCluster();
  cluster.fabric = {.pod_nodes = 4, .oversubscription = 2};  // 32 ranks
  EXPECT_EQ(PlaceGroup({.size = 128, .stride = 1}, 128, cluster).nodes_per_pod, 4);
  EXPECT_EQ(PlaceGroup({.size = 8, .stride = 16}, 128, cluster).nodes_per_pod, 2);
  EXPECT_EQ(PlaceGroup({.size = 4, .stride = 32}, 128, cluster).nodes_per_pod, 1);
  EXPECT_EQ(PlaceGroup({.size = 2, .stride = 8}, 128, cluster).nodes_per_pod, 2);
}

}  // namespace
}  // namespace tessera::cost_model
