// Which row goes where: worked out by hand, and as properties over many routings.
#include "engine/layers/dispatch_plan.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "cost_model/base/check.h"

namespace tessera::engine {
namespace {

using Ints = std::vector<int32_t>;

TEST(DispatchPlanTest, RowsLeaveByExpertThenByToken) {
  // Three tokens, two of four experts each.
  const Ints chosen = {2, 0, 3, 2, 0, 3};
  const OutgoingRows rows =
      RouteRows({.num_tokens = 3, .num_experts = 4, .experts_per_token = 2}, chosen);
  EXPECT_EQ(rows.per_expert, (Ints{2, 0, 2, 2}));
  EXPECT_EQ(rows.token, (Ints{0, 2, 0, 1, 1, 2}));
  EXPECT_EQ(rows.choice, (Ints{1, 4, 0, 3, 2, 5}));
  EXPECT_EQ(rows.row, (Ints{2, 0, 4, 3, 1, 5}));
}

TEST(DispatchPlanTest, ACapacityDropsTheLastTokensAndFillsUp) {
  const Ints chosen = {0, 0, 1, 0};
  const OutgoingRows rows =
      RouteRows({.num_tokens = 4, .num_experts = 2, .experts_per_token = 1, .capacity = 2}, chosen);
  EXPECT_EQ(rows.per_expert, (Ints{2, 2}));
  EXPECT_EQ(rows.token, (Ints{0, 1, 2, -1}));
  EXPECT_EQ(rows.choice, (Ints{0, 1, 2, -1}));
  EXPECT_EQ(rows.row, (Ints{0, 1, 2, -1}));
}

TEST(DispatchPlanTest, AnExpertOutsideTheModelIsRefused) {
  EXPECT_THROW(RouteRows({.num_tokens = 1, .num_experts = 2, .experts_per_token = 1}, Ints{2}),
               base::CheckFailure);
}

TEST(DispatchPlanTest, ExpertsTakeRowsInTheOrderOfTheirRanks) {
  // Two expert ranks with two experts each; this is the second one. Rank 0 sends it 1 and 2 rows,
  // itself 3 and 1.
  const ExpertMesh mesh{.expert_size = 2, .expert_rank = 1};
  const IncomingRows rows = ArriveRows(mesh, 4, Ints{5, 6, 1, 2, 0, 4, 3, 1});
  EXPECT_EQ(rows.sent, (std::vector<int64_t>{4, 4}));
  EXPECT_EQ(rows.received, (std::vector<int64_t>{3, 4}));
  EXPECT_EQ(rows.block_rows, 7);
  EXPECT_TRUE(rows.reorders);
  EXPECT_EQ(rows.expert_rows, (std::vector<int64_t>{4, 3}));
  // Arrivals: expert 2's row of rank 0, expert 3's two; then three and one of rank 1.
  EXPECT_EQ(rows.arrival, (Ints{0, 3, 4, 5, 1, 2, 6}));
  EXPECT_EQ(rows.position, (Ints{0, 4, 5, 1, 2, 3, 6}));
}

TEST(DispatchPlanTest, BlocksOfExpertTensorRanksAreAsLongAsTheLongest) {
  // One expert, two ranks that share its matrices, one of which sends 1 row and the other 3.
  const ExpertMesh mesh{.tensor_size = 2, .tensor_rank = 0};
  const IncomingRows rows = ArriveRows(mesh, 1, Ints{1, 3});
  EXPECT_EQ(rows.num_received, 1);
  EXPECT_EQ(rows.block_rows, 3);
  EXPECT_TRUE(rows.reorders);
  EXPECT_EQ(rows.expert_rows, (std::vector<int64_t>{4}));
  EXPECT_EQ(rows.arrival, (Ints{0, 3, 4, 5}));
  EXPECT_EQ(rows.position, (Ints{0, -1, -1, 1, 2, 3}));
}

TEST(DispatchPlanTest, ARankWithoutRowsHasNone) {
  const ExpertMesh mesh{.expert_size = 2, .expert_rank = 1};
  const IncomingRows rows = ArriveRows(mesh, 2, Ints{4, 0, 2, 0});
  EXPECT_EQ(rows.num_rows(), 0);
  EXPECT_EQ(rows.received, (std::vector<int64_t>{0, 0}));
  EXPECT_EQ(rows.sent, (std::vector<int64_t>{2, 0}));
}

// A random choice of `k` of `num_experts` for each token.
Ints RandomChoice(int64_t num_tokens, int64_t num_experts, int64_t k, std::mt19937& random) {
  Ints experts(static_cast<size_t>(num_experts)), chosen;
  std::iota(experts.begin(), experts.end(), 0);
  for (int64_t token = 0; token < num_tokens; ++token) {
    std::shuffle(experts.begin(), experts.end(), random);
    chosen.insert(chosen.end(), experts.begin(), experts.begin() + k);
  }
  return chosen;
}

TEST(DispatchPlanTest, ChoicesKeptAndDroppedAddUp) {
  std::mt19937 random(1);
  for (const int64_t capacity : {0, 1, 3, 7, 20}) {
    const RoutingShape shape{
        .num_tokens = 20, .num_experts = 6, .experts_per_token = 3, .capacity = capacity};
    const Ints chosen = RandomChoice(20, 6, 3, random);
    const OutgoingRows rows = RouteRows(shape, chosen);
    std::vector<int64_t> wanted(6), kept(6);
    for (size_t i = 0; i < chosen.size(); ++i) {
      const auto expert = static_cast<size_t>(chosen[i]);
      ++wanted[expert];
      if (rows.row[i] < 0) continue;
      ++kept[expert];
      EXPECT_EQ(rows.choice[static_cast<size_t>(rows.row[i])], static_cast<int32_t>(i));
    }
    for (size_t expert = 0; expert < 6; ++expert) {
      EXPECT_EQ(kept[expert], capacity == 0 ? wanted[expert] : std::min(wanted[expert], capacity));
    }
    EXPECT_EQ(rows.num_rows(), capacity == 0 ? 60 : 6 * capacity);
  }
}

// All rows of all ranks arrive once, wherever the experts are.
TEST(DispatchPlanTest, EveryRowArrivesAtItsExpertOnce) {
  constexpr int64_t kExperts = 8;
  std::mt19937 random(2);
  for (const auto& [tensor_size, expert_size] :
       {std::pair{1, 1}, {1, 2}, {1, 8}, {2, 1}, {2, 4}, {4, 2}}) {
    Ints per_expert(static_cast<size_t>(tensor_size * expert_size * kExperts));
    for (int32_t& count : per_expert) count = static_cast<int32_t>(random() % 4);
    for (int expert_rank = 0; expert_rank < expert_size; ++expert_rank) {
      const ExpertMesh mesh{
          .expert_size = expert_size, .expert_rank = expert_rank, .tensor_size = tensor_size};
      const IncomingRows rows = ArriveRows(mesh, kExperts, per_expert);
      const int64_t num_here = kExperts / expert_size;
      for (int64_t i = 0; i < num_here; ++i) {
        int64_t expected = 0;
        for (int rank = 0; rank < tensor_size * expert_size; ++rank) {
          expected += per_expert[static_cast<size_t>(rank * kExperts + expert_rank * num_here + i)];
        }
        EXPECT_EQ(rows.expert_rows[static_cast<size_t>(i)], expected);
      }
      EXPECT_EQ(std::set<int32_t>(rows.arrival.begin(), rows.arrival.end()).size(),
                rows.arrival.size());
      for (size_t i = 0; i < rows.arrival.size(); ++i) {
        EXPECT_EQ(rows.position[static_cast<size_t>(rows.arrival[i])], static_cast<int32_t>(i));
      }
    }
  }
}

}  // namespace
}  // namespace tessera::engine
