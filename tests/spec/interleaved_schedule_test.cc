// Interleaving in larger groups of micro-batches, and with transfers that overlap.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "cost_model/base/check.h"
#include "cost_model/base/error.h"
#include "cost_model/spec/pipeline_schedule.h"

namespace tessera::spec {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::string Text(const InterleavedShape& shape, int stage) {
  return ToString(MakeInterleaved(shape).actions_by_stage[stage]);
}

TEST(InterleavedScheduleTest, EveryGroupSizeIsValid) {
  for (int p = 2; p <= 5; ++p) {
    for (int v = 2; v <= 3; ++v) {
      for (int group = p; group <= 2 * p + 1; ++group) {
        for (int m = group; m <= 3 * group; ++m) {
          if (!FormGroups(m, group, p)) continue;
          for (const bool overlaps : {false, true}) {
            EXPECT_THAT(ValidateSchedule(MakeInterleaved({p, v, m, group, overlaps})), IsEmpty())
                << "p=" << p << " v=" << v << " m=" << m << " group=" << group
                << (overlaps ? " overlapped" : "");
          }
        }
      }
    }
  }
}

// Worked out by hand from Megatron-LM's table of passes: each chunk takes three micro-batches
// before the next one does; (p - 1 - r) * 2 + (v - 1) * 3 forward passes come first. The first
// stage has the last one's activations, and that one the first one's gradients, a turn before it
// needs them.
TEST(InterleavedScheduleTest, ThreeMicrobatchesGoThroughAChunkOfTwoStages) {
  const InterleavedShape shape{
      .num_stages = 2, .num_chunks = 2, .num_microbatches = 3, .group_size = 3};
  EXPECT_EQ(Text(shape, 0),
            "0F0 0SF0 0F1 [0SF1 2RF0] 0F2 [0SF2 2RF1] 2F0 [2SF0 2RF2] 2F1 [2SF1 2RB0] "
            "2F2 2B0 [2SF2 2SB0 2RB1] 2B1 [2SB1 2RB2] 2B2 [2SB2 0RB0] 0B0 0RB1 0B1 0RB2 0B2");
  EXPECT_EQ(Text(shape, 1),
            "1RF0 1F0 [1SF0 1RF1] 1F1 [1SF1 1RF2] 1F2 [1SF2 3RF0] 3F0 3B0 [3SB0 3RF1] "
            "3F1 3B1 [3SB1 3RF2 1RB0] 3F2 3B2 [3SB2 1RB1] 1B0 [1SB0 1RB2] 1B1 1SB1 1B2 1SB2");
}

// Worked out by hand: what a forward pass sends and the next one needs stands between the two, what
// a backward pass sends and the next one needs behind it.
TEST(InterleavedScheduleTest, OverlappedTransfersStandBetweenThePasses) {
  const InterleavedShape shape{
      .num_stages = 2, .num_chunks = 2, .num_microbatches = 2, .overlaps_transfers = true};
  EXPECT_EQ(Text(shape, 0),
            "0F0 0SF0 0F1 [0SF1 2RF0] 2F0 [2SF0 2RF1] 2F1 2SF1 2RB0 "
            "2B0 [2SB0 2RB1] 2B1 [2SB1 0RB0] 0B0 0RB1 0B1");
  EXPECT_EQ(Text(shape, 1),
            "1RF0 1F0 [1SF0 1RF1] 1F1 [1SF1 3RF0] 3F0 3RF1 3B0 3SB0 3F1 3B1 [3SB1 1RB0] "
            "1B0 [1SB0 1RB1] 1B1 1SB1");
}

// Groups of as many micro-batches as stages are what the schedule has without a size.
TEST(InterleavedScheduleTest, AGroupOfTheStagesIsTheUsualOne) {
  EXPECT_EQ(
      MakeInterleaved({.num_stages = 4, .num_chunks = 2, .num_microbatches = 8}),
      MakeInterleaved({.num_stages = 4, .num_chunks = 2, .num_microbatches = 8, .group_size = 4}));
}

// Whatever the groups, a virtual stage takes its micro-batches in ascending order, both ways:
// gradients add up in one order.
TEST(InterleavedScheduleTest, MicrobatchesAscendOnEveryVirtualStage) {
  for (const bool overlaps : {false, true}) {
    const PipelineSchedule schedule = MakeInterleaved({3, 2, 13, 5, overlaps});
    for (const std::vector<Action>& actions : schedule.actions_by_stage) {
      for (const ActionKind kind : {ActionKind::kForward, ActionKind::kBackward}) {
        std::vector<int> next(6, 0);
        for (const Action& action : actions) {
          if (action.kind != kind) continue;
          EXPECT_EQ(action.microbatch, next[action.virtual_stage]++);
        }
      }
    }
  }
}

// Megatron-LM: p <= N <= m, and a last group, if it is smaller, of at least p.
TEST(InterleavedScheduleTest, GroupsAgainstTheRuleAreRefused) {
  EXPECT_TRUE(FormGroups(8, 4, 4));
  EXPECT_TRUE(FormGroups(11, 6, 4));   // 6 + 5
  EXPECT_FALSE(FormGroups(9, 6, 4));   // 6 + 3
  EXPECT_FALSE(FormGroups(8, 3, 4));   // less than the stages
  EXPECT_FALSE(FormGroups(8, 10, 4));  // more than there are
  try {
    MakeInterleaved({.num_stages = 4, .num_chunks = 2, .num_microbatches = 9, .group_size = 6});
    FAIL() << "a last group of three over four stages was accepted";
  } catch (const base::ConfigError& error) {
    EXPECT_THAT(error.what(), HasSubstr("9 micro-batches in groups of 6"));
  }
}

}  // namespace
}  // namespace tessera::spec
