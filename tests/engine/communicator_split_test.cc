#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "tests/testing/comm_backends.h"

namespace tessera::engine {
namespace {

using base::DType;
using base::ReduceOp;

class CommunicatorSplitTest : public testing::OnEachBackend {};

int SumOverGroup(Communicator& comm, int value) {
  comm.AllReduce(&value, &value, 1, DType::kInt32, ReduceOp::kSum);
  return value;
}

TEST_P(CommunicatorSplitTest, RanksOfOneColorFormAGroupOrderedByKeyThenRank) {
  RunRanks(6, [](Communicator& world) {
    // Colors 0 and 1; keys turn the order of color 1 around.
    const int color = world.rank() % 2;
    const auto group = world.Split(color, color == 1 ? -world.rank() : 0, "half");
    ASSERT_NE(group, nullptr);
    EXPECT_EQ(group->size(), 3);
    EXPECT_EQ(group->rank(), color == 1 ? 2 - world.rank() / 2 : world.rank() / 2);
    EXPECT_EQ(group->name(), "half");
    EXPECT_EQ(SumOverGroup(*group, world.rank()), color == 1 ? 1 + 3 + 5 : 0 + 2 + 4);
  });
}

TEST_P(CommunicatorSplitTest, ANegativeColorGetsNoGroup) {
  RunRanks(3, [](Communicator& world) {
    const auto group = world.Split(world.rank() == 1 ? -1 : 7, 0, "rest");
    EXPECT_EQ(group == nullptr, world.rank() == 1);
    if (group != nullptr) {
      EXPECT_EQ(SumOverGroup(*group, world.rank()), 2);
    }
  });
}

TEST_P(CommunicatorSplitTest, GroupsOfGroupsWorkSideBySide) {
  RunRanks(8, [](Communicator& world) {
    const int rank = world.rank();
    const auto half = world.Split(rank / 4, rank, "half");
    const auto quarter = half->Split(half->rank() / 2, half->rank(), "quarter");
    const auto single = quarter->Split(quarter->rank(), 0, "single");
    EXPECT_EQ(single->size(), 1);
    for (int round = 0; round < 100; ++round) {
      ASSERT_EQ(SumOverGroup(*quarter, rank + round), rank / 2 * 4 + 1 + 2 * round);
      ASSERT_EQ(SumOverGroup(*single, rank), rank);
      ASSERT_EQ(SumOverGroup(*half, 1), 4);
      ASSERT_EQ(SumOverGroup(world, 1), 8);
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Backends, CommunicatorSplitTest,
                         ::testing::ValuesIn(testing::CommBackends()), testing::NameOfBackend);

}  // namespace
}  // namespace tessera::engine
