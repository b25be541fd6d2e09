#include "engine/train/step_clock.h"

#include <gtest/gtest.h>

namespace tessera::engine {
namespace {

using spec::ActionKind;
using spec::PhaseKind;

// A step of 12 seconds, a mark a second: clear, forward with tensor-parallel communication from 2
// to 3, an exchange of two transfers, backward with context-parallel communication from 5 to 6 and
// tensor-parallel from 6 to 7, reduce, meet, update, gather.
StepMarks MadeUpStep() {
  StepMarks marks;
  marks.pipeline.actions = {{.action = {.kind = ActionKind::kForward}, .begin = 1, .end = 4},
                            {.action = {.kind = ActionKind::kSendForward}, .begin = 4, .end = 5},
                            {.action = {.kind = ActionKind::kRecvBackward}, .begin = 4, .end = 5},
                            {.action = {.kind = ActionKind::kBackward}, .begin = 5, .end = 8}};
  marks.pipeline.memory = {{.mark = 1, .num_bytes = 10}, {.mark = 4, .num_bytes = 20}};
  marks.tensor_comm = {{2, 3}, {6, 7}};
  marks.context_comm = {{5, 6}};
  marks.phases = {{PhaseKind::kOther, {0, 1}},
                  {PhaseKind::kReduceGradients, {8, 9}},
                  {PhaseKind::kWait, {9, 10}},
                  {PhaseKind::kOptimizer, {10, 11}},
                  {PhaseKind::kGatherParameters, {11, 12}}};
  return marks;
}

const std::vector<double> kTimesS = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

TEST(StepClockTest, WhatGoesToExpertsIsNoComputation) {
  StepMarks marks = MadeUpStep();
  marks.tensor_comm = {{2, 3}};
  marks.context_comm = {};
  marks.expert_comm = {{1, 2}, {5, 6}, {6, 7}};
  const spec::TimeBreakdown time = BreakdownOf(marks, kTimesS, /*blocked_s=*/0);
  EXPECT_DOUBLE_EQ(time.forward_s, 1);
  EXPECT_DOUBLE_EQ(time.backward_s, 1);
  EXPECT_DOUBLE_EQ(time.tp_comm_s, 1);
  EXPECT_DOUBLE_EQ(time.ep_comm_s, 3);
  EXPECT_DOUBLE_EQ(time.Total(), 12);
}

TEST(StepClockTest, EachSecondOfAStepCountsOnce) {
  const spec::TimeBreakdown time = BreakdownOf(MadeUpStep(), kTimesS, /*blocked_s=*/0.25);
  EXPECT_DOUBLE_EQ(time.forward_s, 2);
  EXPECT_DOUBLE_EQ(time.backward_s, 1);
  EXPECT_DOUBLE_EQ(time.tp_comm_s, 2);
  EXPECT_DOUBLE_EQ(time.cp_comm_s, 1);
  EXPECT_DOUBLE_EQ(time.bubble_s, 1.25);  // the exchange, and of the meeting what was blocked
  EXPECT_DOUBLE_EQ(time.dp_comm_s, 2);
  EXPECT_DOUBLE_EQ(time.optimizer_s, 1);
  EXPECT_DOUBLE_EQ(time.other_s, 1.75);
  EXPECT_DOUBLE_EQ(time.Total(), 12);
}

// The exchange is posted from 4 to 5 and waited for from 5 to 6, before the backward pass.
TEST(StepClockTest, WaitingForAnExchangeUnderWayIsNotThePassesTime) {
  StepMarks marks = MadeUpStep();
  marks.pipeline.actions.back().begin = 6;
  marks.pipeline.waits = {{5, 6}};
  marks.context_comm = {};
  const spec::TimeBreakdown time = BreakdownOf(marks, kTimesS, /*blocked_s=*/0);
  EXPECT_DOUBLE_EQ(time.bubble_s, 2);
  EXPECT_DOUBLE_EQ(time.backward_s, 1);
  EXPECT_DOUBLE_EQ(time.tp_comm_s, 2);
  EXPECT_DOUBLE_EQ(time.Total(), 12);
}

// From 1 to 2 the forward pass waits for parameters; from 8 to 9 a phase of its own does.
TEST(StepClockTest, WhatAPassWaitsForShardsIsDataCommunication) {
  StepMarks marks = MadeUpStep();
  marks.shard_comm = {{1, 2}, {8, 9}};
  const spec::TimeBreakdown time = BreakdownOf(marks, kTimesS, /*blocked_s=*/0.25);
  EXPECT_DOUBLE_EQ(time.forward_s, 1);
  EXPECT_DOUBLE_EQ(time.dp_comm_s, 3);
  EXPECT_DOUBLE_EQ(time.Total(), 12);
}

TEST(StepClockTest, TheTimelineHoldsTheTimesOfTheMarks) {
  const spec::RankTimeline timeline = TimelineOf(MadeUpStep(), kTimesS);
  ASSERT_EQ(timeline.actions.size(), 4U);
  EXPECT_DOUBLE_EQ(timeline.actions[3].start_s, 5);
  EXPECT_DOUBLE_EQ(timeline.actions[3].end_s, 8);
  ASSERT_EQ(timeline.phases.size(), 5U);
  EXPECT_DOUBLE_EQ(timeline.phases[2].start_s, 9);
  ASSERT_EQ(timeline.memory.size(), 2U);
  EXPECT_DOUBLE_EQ(timeline.memory[1].time_s, 4);
  EXPECT_EQ(timeline.memory[1].num_bytes, 20);
}

}  // namespace
}  // namespace tessera::engine
