#include "cost_model/spec/rank_layout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "cost_model/base/error.h"

namespace tessera::spec {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr Axis kAllAxes[] = {
    Axis::kTensor,    Axis::kContext,      Axis::kExpert,       Axis::kData,
    Axis::kPipeline,  Axis::kGradient,     Axis::kModel,        Axis::kEmbedding,
    Axis::kKvReplica, Axis::kWorld,        Axis::kExpertTensor, Axis::kExpertData,
    Axis::kShard,     Axis::kShardReplica, Axis::kExpertShard,  Axis::kExpertShardReplica};
constexpr const char* kOrders[] = {"tp-cp-ep-dp-pp", "tp-cp-ep-pp-dp", "pp-dp-ep-cp-tp",
                                   "ep-dp-tp-pp-cp", "cp-pp-tp-dp-ep"};

ParallelSpec Shape(int tp, int cp, int dp, int pp, int ep, const std::string& order) {
  ParallelSpec parallel;
  parallel.tensor_parallel_size = tp;
  parallel.context_parallel_size = cp;
  parallel.data_parallel_size = dp;
  parallel.pipeline_parallel_size = pp;
  parallel.expert_parallel_size = ep;
  parallel.rank_order = order;
  return parallel;
}

std::vector<ParallelSpec> ManyShapes() {
  std::vector<ParallelSpec> shapes;
  for (const char* order : kOrders) {
    for (const int tp : {1, 2, 4}) {
      for (const int cp : {1, 3}) {
        for (const int dp : {1, 2, 6}) {
          for (const int pp : {1, 2, 5}) {
            shapes.push_back(Shape(tp, cp, dp, pp, dp % 2 == 0 ? 2 : 1, order));
          }
        }
      }
    }
  }
  return shapes;
}

std::string Describe(const ParallelSpec& p) {
  return base::Concat("tp", p.tensor_parallel_size, " cp", p.context_parallel_size, " dp",
                      p.data_parallel_size, " pp", p.pipeline_parallel_size, " ep",
                      p.expert_parallel_size, " ", p.rank_order);
}

TEST(RankLayoutTest, GroupsPartitionTheWorld) {
  for (const ParallelSpec& shape : ManyShapes()) {
    const RankLayout layout(shape);
    for (const Axis axis : kAllAxes) {
      std::set<std::vector<int>> groups;
      for (int rank = 0; rank < layout.world_size(); ++rank) {
        const std::vector<int> group = layout.GroupOf(rank, axis, /*num_key_value_heads=*/2);
        EXPECT_TRUE(std::is_sorted(group.begin(), group.end())) << Describe(shape);
        EXPECT_EQ(std::count(group.begin(), group.end(), rank), 1) << Describe(shape);
        groups.insert(group);
      }
      size_t num_members = 0;
      std::set<int> members;
      for (const auto& group : groups) {
        num_members += group.size();
        members.insert(group.begin(), group.end());
      }
      // Every rank in exactly one group: no rank lost, none in two.
      EXPECT_EQ(static_cast<int>(num_members), layout.world_size())
          << Describe(shape) << " " << ToString(axis);
      EXPECT_EQ(static_cast<int>(members.size()), layout.world_size())
          << Describe(shape) << " " << ToString(axis);
    }
  }
}

TEST(RankLayoutTest, RanksAndCoordinatesRoundTrip) {
  for (const ParallelSpec& shape : ManyShapes()) {
    const RankLayout layout(shape);
    for (int rank = 0; rank < layout.world_size(); ++rank) {
      EXPECT_EQ(layout.RankOf(layout.CoordOf(rank)), rank) << Describe(shape);
    }
    EXPECT_EQ(layout.RankOf({}), 0) << Describe(shape);
  }
}

TEST(RankLayoutTest, GroupsVaryOnlyInTheirOwnAxes) {
  for (const ParallelSpec& shape : ManyShapes()) {
    const RankLayout layout(shape);
    for (int rank = 0; rank < layout.world_size(); ++rank) {
      const RankCoord own = layout.CoordOf(rank);
      for (const int peer : layout.GroupOf(rank, Axis::kGradient)) {
        const RankCoord coord = layout.CoordOf(peer);
        EXPECT_EQ(coord.tensor, own.tensor) << Describe(shape);
        EXPECT_EQ(coord.pipeline, own.pipeline) << Describe(shape);
      }
      for (const int peer : layout.GroupOf(rank, Axis::kModel)) {
        const RankCoord coord = layout.CoordOf(peer);
        EXPECT_EQ(coord.data, own.data) << Describe(shape);
        EXPECT_EQ(coord.context, own.context) << Describe(shape);
      }
    }
    EXPECT_EQ(static_cast<int>(layout.GroupOf(0, Axis::kGradient).size()),
              shape.data_parallel_size * shape.context_parallel_size);
    EXPECT_EQ(static_cast<int>(layout.GroupOf(0, Axis::kModel).size()),
              shape.tensor_parallel_size * shape.pipeline_parallel_size);
  }
}

// Sixteen ranks, tp 2, pp 4, dp 2, written by hand from rank = tp + 2 * (dp + 2 * pp).
TEST(RankLayoutTest, DefaultOrderPlacesSixteenRanksAsMegatronDoes) {
  const RankLayout layout(Shape(2, 1, 2, 4, 1, "tp-cp-ep-dp-pp"));
  EXPECT_EQ(layout.world_size(), 16);
  EXPECT_THAT(layout.GroupOf(0, Axis::kTensor), ElementsAre(0, 1));
  EXPECT_THAT(layout.GroupOf(15, Axis::kTensor), ElementsAre(14, 15));
  EXPECT_THAT(layout.GroupOf(0, Axis::kData), ElementsAre(0, 2));
  EXPECT_THAT(layout.GroupOf(3, Axis::kData), ElementsAre(1, 3));
  EXPECT_THAT(layout.GroupOf(14, Axis::kData), ElementsAre(12, 14));
  EXPECT_THAT(layout.GroupOf(0, Axis::kPipeline), ElementsAre(0, 4, 8, 12));
  EXPECT_THAT(layout.GroupOf(7, Axis::kPipeline), ElementsAre(3, 7, 11, 15));
  EXPECT_THAT(layout.GroupOf(0, Axis::kModel), ElementsAre(0, 1, 4, 5, 8, 9, 12, 13));
  EXPECT_THAT(layout.GroupOf(2, Axis::kEmbedding), ElementsAre(2, 14));
  EXPECT_THAT(layout.GroupOf(14, Axis::kEmbedding), ElementsAre(2, 14));
  EXPECT_THAT(layout.GroupOf(6, Axis::kEmbedding), ElementsAre(6));
  EXPECT_EQ(layout.CoordOf(13), (RankCoord{.tensor = 1, .data = 0, .pipeline = 3}));
}

TEST(RankLayoutTest, TheOrderStringMovesTheAxes) {
  // pp before dp: rank = tp + 2 * (pp + 4 * dp).
  const RankLayout layout(Shape(2, 1, 2, 4, 1, "tp-cp-ep-pp-dp"));
  EXPECT_THAT(layout.GroupOf(0, Axis::kPipeline), ElementsAre(0, 2, 4, 6));
  EXPECT_THAT(layout.GroupOf(0, Axis::kData), ElementsAre(0, 8));
}

TEST(RankLayoutTest, ExpertGroupsAreNeighboursOnTheDataAxis) {
  const RankLayout layout(Shape(2, 1, 4, 1, 2, "tp-cp-ep-dp-pp"));
  EXPECT_THAT(layout.GroupOf(0, Axis::kExpert), ElementsAre(0, 2));
  EXPECT_THAT(layout.GroupOf(7, Axis::kExpert), ElementsAre(5, 7));
}

// Megatron-LM forms expert groups from all ranks of a stage but the expert tensor ranks: with tp 2,
// cp 2, dp 2 and ep 4, ranks 0, 2, 4 and 6 differ in cp first, then in dp.
TEST(RankLayoutTest, ExpertGroupsSpanContextThenData) {
  ParallelSpec shape = Shape(2, 2, 4, 2, 4, "tp-cp-ep-dp-pp");
  const RankLayout layout(shape);
  EXPECT_THAT(layout.GroupOf(0, Axis::kExpert), ElementsAre(0, 2, 4, 6));
  EXPECT_THAT(layout.GroupOf(0, Axis::kExpertTensor), ElementsAre(0, 1));
  EXPECT_THAT(layout.GroupOf(3, Axis::kExpertData), ElementsAre(3, 11));
  EXPECT_THAT(layout.GroupOf(16, Axis::kExpert), ElementsAre(16, 18, 20, 22));  // second stage
  // One rank an expert: tensor ranks hold different experts.
  shape.expert_tensor_parallel_size = 1;
  const RankLayout whole_experts(shape);
  EXPECT_THAT(whole_experts.GroupOf(0, Axis::kExpert), ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(whole_experts.GroupOf(0, Axis::kExpertTensor), ElementsAre(0));
  EXPECT_THAT(whole_experts.GroupOf(5, Axis::kExpertData), ElementsAre(1, 5, 9, 13));
}

TEST(RankLayoutTest, NeighboursShardAndTheirPeersReplicate) {
  ParallelSpec shape = Shape(2, 1, 8, 1, 1, "tp-cp-ep-dp-pp");
  shape.zero_group_size = 4;
  const RankLayout layout(shape);
  EXPECT_THAT(layout.GroupOf(2, Axis::kShard), ElementsAre(0, 2, 4, 6));
  EXPECT_THAT(layout.GroupOf(9, Axis::kShard), ElementsAre(9, 11, 13, 15));
  EXPECT_THAT(layout.GroupOf(9, Axis::kShardReplica), ElementsAre(1, 9));
  shape.zero_group_size = 0;
  EXPECT_EQ(RankLayout(shape).GroupOf(9, Axis::kShard),
            RankLayout(shape).GroupOf(9, Axis::kGradient));
  EXPECT_THAT(RankLayout(shape).GroupOf(9, Axis::kShardReplica), ElementsAre(9));
}

// Of eight ranks that hold a dense parameter two groups shard it, so two replicas of each expert's
// state: with ep 2, four ranks hold the same experts, neighbours shard.
TEST(RankLayoutTest, ExpertStateHasAsManyReplicasAsTheRest) {
  ParallelSpec shape = Shape(1, 1, 8, 1, 2, "tp-cp-ep-dp-pp");
  shape.zero_group_size = 4;
  const RankLayout layout(shape);
  EXPECT_THAT(layout.GroupOf(0, Axis::kExpertData), ElementsAre(0, 2, 4, 6));
  EXPECT_THAT(layout.GroupOf(0, Axis::kExpertShard), ElementsAre(0, 2));
  EXPECT_THAT(layout.GroupOf(7, Axis::kExpertShard), ElementsAre(5, 7));
  EXPECT_THAT(layout.GroupOf(7, Axis::kExpertShardReplica), ElementsAre(3, 7));
}

TEST(RankLayoutTest, ExpertAndShardGroupsHaveTheirSizesInEveryOrder) {
  for (const char* order : kOrders) {
    for (const int etp : {1, 2, 4}) {
      for (const int ep : {1, 2, 6}) {
        ParallelSpec shape = Shape(4, 2, 6, 3, ep, order);
        shape.expert_tensor_parallel_size = etp;
        shape.zero_group_size = ep == 6 ? 0 : 6;
        const RankLayout layout(shape);
        const int edp = 4 * 2 * 6 / (etp * ep);
        const int replicas = ep == 6 ? 1 : 2;
        for (int rank = 0; rank < layout.world_size(); ++rank) {
          const auto size = [&](Axis axis) {
            return static_cast<int>(layout.GroupOf(rank, axis).size());
          };
          EXPECT_EQ(size(Axis::kExpert), ep);
          EXPECT_EQ(size(Axis::kExpertTensor), etp);
          EXPECT_EQ(size(Axis::kExpertData), edp);
          EXPECT_EQ(size(Axis::kShard), 12 / replicas);
          EXPECT_EQ(size(Axis::kShardReplica), replicas);
          EXPECT_EQ(size(Axis::kExpertShard), edp / replicas);
          EXPECT_EQ(size(Axis::kExpertShardReplica), replicas);
          // Experts stay within their pipeline stage.
          for (const int peer : layout.GroupOf(rank, Axis::kExpert)) {
            EXPECT_EQ(layout.CoordOf(peer).pipeline, layout.CoordOf(rank).pipeline) << order;
          }
        }
      }
    }
  }
}

TEST(RankLayoutTest, ShapesAreThoseOfTheGroupsOfRankZero) {
  std::vector<ParallelSpec> shapes = ManyShapes();
  for (const char* order : kOrders) {
    ParallelSpec shape = Shape(4, 2, 6, 3, 2, order);
    shape.expert_tensor_parallel_size = 2;
    shape.zero_group_size = 6;
    shapes.push_back(shape);
  }
  for (const ParallelSpec& shape : shapes) {
    const RankLayout layout(shape);
    for (const Axis axis : kAllAxes) {
      if (axis == Axis::kKvReplica) continue;
      const std::vector<int> group = layout.GroupOf(0, axis);
      const GroupShape expected{.size = static_cast<int>(group.size()),
                                .stride = group.size() > 1 ? group[1] - group[0] : 1};
      EXPECT_EQ(layout.ShapeOf(axis), expected) << Describe(shape) << " " << ToString(axis);
    }
  }
}

TEST(RankLayoutTest, KeyValueHeadsFewerThanTensorRanksAreHeldByNeighbours) {
  const RankLayout layout(Shape(8, 1, 2, 1, 1, "tp-cp-ep-dp-pp"));
  EXPECT_THAT(layout.GroupOf(5, Axis::kKvReplica, 2), ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(layout.GroupOf(9, Axis::kKvReplica, 4), ElementsAre(8, 9));
  EXPECT_THAT(layout.GroupOf(9, Axis::kKvReplica, 8), ElementsAre(9));
  EXPECT_THAT(layout.GroupOf(9, Axis::kKvReplica, 16), ElementsAre(9));
  EXPECT_THAT(layout.GroupOf(9, Axis::kKvReplica), ElementsAre(9));
}

TEST(RankLayoutTest, AWrongOrderIsRefused) {
  for (const char* order : {"", "tp", "tp-cp-ep-dp", "tp-cp-ep-dp-dp", "tp-cp-ep-dp-pp-",
                            "tp-cp-ep-dp-pp-tp", "tp cp ep dp pp", "TP-cp-ep-dp-pp"}) {
    try {
      RankLayout layout(Shape(1, 1, 1, 1, 1, order));
      FAIL() << order << " was accepted";
    } catch (const base::ConfigError& error) {
      EXPECT_THAT(error.what(), HasSubstr("rank_order"));
      EXPECT_THAT(error.what(), HasSubstr(base::Concat('"', order, '"')));
    }
  }
}

TEST(RankLayoutTest, ARankOutsideTheWorldIsABug) {
  const RankLayout layout(Shape(2, 1, 1, 1, 1, "tp-cp-ep-dp-pp"));
  EXPECT_THROW(layout.CoordOf(2), base::CheckFailure);
  EXPECT_THROW(layout.RankOf({.tensor = 2}), base::CheckFailure);
}

}  // namespace
}  // namespace tessera::spec
