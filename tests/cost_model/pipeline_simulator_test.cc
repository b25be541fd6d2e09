#include "cost_model/pipeline_simulator.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "cost_model/base/check.h"

namespace tessera::cost_model {
namespace {

using spec::Action;
using spec::ActionKind;
using spec::PipelineSchedule;
using spec::ScheduleKind;
using ::testing::HasSubstr;

PipelineCosts UniformCosts(int num_virtual_stages, double forward_s, double backward_s,
                           double transfer_s = 0) {
  PipelineCosts costs;
  costs.forward_s.assign(num_virtual_stages, forward_s);
  costs.backward_s.assign(num_virtual_stages, backward_s);
  costs.forward_transfer_s.assign(num_virtual_stages - 1, transfer_s);
  costs.backward_transfer_s.assign(num_virtual_stages - 1, transfer_s);
  return costs;
}

using Shape = PipelineShape;

PipelineSchedule MakeSchedule(const Shape& shape) {
  return spec::MakeSchedule({.pipeline_parallel_size = shape.num_stages,
                             .virtual_pipeline_size = shape.num_chunks,
                             .microbatch_group_size = shape.group_size,
                             .schedule = shape.kind,
                             .overlap_pp_comm = shape.overlaps_transfers},
                            shape.num_microbatches);
}

double FastMakespan(const Shape& shape, const PipelineCosts& costs) {
  return FastPipelineTime(shape, costs).makespan_s;
}

std::string Describe(const Shape& shape) {
  return base::Concat(spec::ToString(shape.kind), " p=", shape.num_stages, " v=", shape.num_chunks,
                      " m=", shape.num_microbatches, " group=", shape.group_size,
                      shape.overlaps_transfers ? " overlapped" : "");
}

// Both ways of pricing must give the makespan expected.
void ExpectMakespan(const Shape& shape, const PipelineCosts& costs, double expected_s) {
  const double tolerance_s = 1e-12 * expected_s;
  EXPECT_NEAR(SimulatePipeline(MakeSchedule(shape), costs).makespan_s, expected_s, tolerance_s)
      << Describe(shape);
  EXPECT_NEAR(FastMakespan(shape, costs), expected_s, tolerance_s) << Describe(shape);
}

// Narayanan et al. 2021, section 2.2: both take m + p - 1 micro-batches' time, a bubble of
// (p - 1) / m of the ideal time on every stage.
TEST(PipelineSimulatorTest, GPipeAndOneForwardOneBackwardHaveThePublishedBubble) {
  for (const ScheduleKind kind : {ScheduleKind::kGPipe, ScheduleKind::kOneForwardOneBackward}) {
    for (const int p : {1, 2, 4, 8}) {
      for (const int m : {1, 3, 8, 32, 200}) {
        const Shape shape{kind, p, 1, m};
        const PipelineCosts costs = UniformCosts(p, 1.0, 2.0);
        ExpectMakespan(shape, costs, 3.0 * (m + p - 1));
        const PipelineResult result = SimulatePipeline(MakeSchedule(shape), costs);
        for (const PipelineStageTime& stage : result.stages) {
          EXPECT_DOUBLE_EQ(stage.bubble_s, 3.0 * (p - 1)) << Describe(shape);
          EXPECT_DOUBLE_EQ(stage.transfer_s, 0.0) << Describe(shape);
        }
      }
    }
  }
}

// Same section: v chunks shrink the bubble to (p - 1) / (m v).
TEST(PipelineSimulatorTest, InterleavingDividesTheBubbleByTheNumberOfChunks) {
  for (int p = 2; p <= 8; ++p) {
    for (int v = 2; v <= 4; ++v) {
      for (const int groups : {1, 2, 5, 12}) {
        const int m = groups * p;
        ExpectMakespan({ScheduleKind::kInterleaved, p, v, m}, UniformCosts(p * v, 1.0 / v, 2.0 / v),
                       3.0 * m + 3.0 * (p - 1) / v);
      }
    }
  }
}

// Qi et al. 2023, Table 2: a bubble of (p - 1) (f + b - w), b and w the parts of the backward pass
// for inputs and for weights, where w is at most f; from p micro-batches on.
TEST(PipelineSimulatorTest, ZeroBubbleH1HasThePublishedBubble) {
  for (const auto& [f, b, w] : {std::tuple(1.0, 1.0, 1.0), std::tuple(1.0, 1.25, 0.75),
                                std::tuple(1.0, 1.5, 1.0), std::tuple(2.0, 2.0, 1.0)}) {
    for (const int p : {1, 2, 4, 8}) {
      for (const int m : {p, p + 3, 2 * p, 5 * p, 200}) {
        PipelineCosts costs = UniformCosts(p, f, b);
        costs.backward_weight_s.assign(p, w);
        ExpectMakespan({ScheduleKind::kZeroBubbleH1, p, 1, m}, costs,
                       m * (f + b + w) + (p - 1) * (f + b - w));
      }
    }
  }
}

// Played by hand, p = 2, m = 2, f = 1, b = 2, w = 1: stage 0 F0 F1 to 2, stage 1 F0 I0 to 4, so
// stage 0 runs I0 to 6 and W0 to 7; stage 1 F1 I1 to 7, W0 W1 to 9; stage 0 I1 to 9, W1 to 10.
TEST(PipelineSimulatorTest, ZeroBubbleH1AsCountedByHand) {
  PipelineCosts costs = UniformCosts(2, 1, 2);
  costs.backward_weight_s = {1, 1};
  const Shape shape{ScheduleKind::kZeroBubbleH1, 2, 1, 2};
  ExpectMakespan(shape, costs, 10);
  const PipelineTime fast = FastPipelineTime(shape, costs);
  EXPECT_DOUBLE_EQ(fast.stage_end_s[0], 10);
  EXPECT_DOUBLE_EQ(fast.stage_end_s[1], 9);
}

// Played by hand: stage 0 computes until 1, its message leaves at 1.1 and lands at 1.6; stage 1
// computes until 7.6, its message leaves at 7.7 and lands at 7.95.
TEST(PipelineSimulatorTest, OneMicrobatchOverTwoStagesAsCountedByHand) {
  PipelineCosts costs;
  costs.forward_s = {1, 2};
  costs.backward_s = {3, 4};
  costs.forward_transfer_s = {0.5};
  costs.backward_transfer_s = {0.25};
  costs.send_overhead_s = 0.1;
  const Shape shape{ScheduleKind::kOneForwardOneBackward, 2, 1, 1};
  ExpectMakespan(shape, costs, 10.95);
  const PipelineResult result = SimulatePipeline(MakeSchedule(shape), costs);
  const PipelineStageTime& first = result.stages[0];
  EXPECT_DOUBLE_EQ(first.forward_s, 1);
  EXPECT_DOUBLE_EQ(first.backward_s, 3);
  EXPECT_DOUBLE_EQ(first.send_s, 0.1);
  EXPECT_NEAR(first.transfer_s, 0.25, 1e-12);
  EXPECT_NEAR(first.bubble_s, 7.7 - 1.1, 1e-12);
  const PipelineStageTime& last = result.stages[1];
  EXPECT_NEAR(last.transfer_s, 0.5, 1e-12);
  EXPECT_NEAR(last.bubble_s, 1.1 + (10.95 - 7.7), 1e-12);
  const PipelineTime fast = FastPipelineTime(shape, costs);
  EXPECT_NEAR(fast.stage_end_s[0], 10.95, 1e-12);
  EXPECT_NEAR(fast.stage_end_s[1], 7.7, 1e-12);

  costs.transfers_overlap = false;  // now the sender waits as well: nothing else changes
  ExpectMakespan(shape, costs, 10.95);
  const PipelineResult blocking = SimulatePipeline(MakeSchedule(shape), costs);
  EXPECT_NEAR(blocking.stages[0].transfer_s, 0.5 + 0.25, 1e-12);
  EXPECT_NEAR(blocking.stages[1].transfer_s, 0.5 + 0.25, 1e-12);
  EXPECT_NEAR(blocking.stages[1].bubble_s, 1.1 + (10.95 - 7.95), 1e-12);
}

// Played by hand: the second stage works 1.5 to 7.5 without a gap; the first backward pass of the
// first stage may start at 5, the second at 8.
TEST(PipelineSimulatorTest, TwoMicrobatchesHideAllButTheOutermostTransfers) {
  const Shape shape{ScheduleKind::kOneForwardOneBackward, 2, 1, 2};
  ExpectMakespan(shape, UniformCosts(2, 1, 2, 0.5), 10.0);
}

// Played by hand: forward passes end 1, 2 | 2.5, 3.5; backward passes end 5.5, 7.5 | 8, 10.
TEST(PipelineSimulatorTest, GPipeTransfersAsCountedByHand) {
  ExpectMakespan({ScheduleKind::kGPipe, 2, 1, 2}, UniformCosts(2, 1, 2, 0.5), 10.0);
}

// The slow last stage never starves: before it one forward pass of each other stage, after it one
// backward pass of each.
TEST(PipelineSimulatorTest, ASlowStageDominates) {
  for (const int p : {2, 4, 8}) {
    for (const int m : {1, 8, 300}) {
      PipelineCosts costs = UniformCosts(p, 1, 2);
      costs.forward_s.back() = 5;
      costs.backward_s.back() = 11;
      ExpectMakespan({ScheduleKind::kOneForwardOneBackward, p, 1, m}, costs,
                     16.0 * m + 3.0 * (p - 1));
    }
  }
}

// A long round trip, not any stage, sets the pace: p micro-batches are on their way at once, and
// the first stage gets one back per round trip for each. Played by hand for p = 2: round trip
// 1 + 10 + 1 + 2 + 10 + 2 = 26 for every two micro-batches.
TEST(PipelineSimulatorTest, SlowLinksLimitThePace) {
  const PipelineCosts costs = UniformCosts(2, 1, 2, 10);
  const Shape shape{ScheduleKind::kOneForwardOneBackward, 2, 1, 40};
  const Shape longer{ScheduleKind::kOneForwardOneBackward, 2, 1, 42};
  EXPECT_NEAR(FastMakespan(longer, costs) - FastMakespan(shape, costs), 26, 1e-9);
}

// In a full pipeline every stage runs v passes each way for a micro-batch, and transfers no longer
// than a pass hide behind the pass between their two ends. Without overlap each turn waits for
// them.
TEST(PipelineSimulatorTest, OverlappedTransfersHideBehindThePassesBetween) {
  for (const int group : {0, 6}) {
    Shape shape{ScheduleKind::kInterleaved, 4, 2, 24, group, /*overlaps_transfers=*/true};
    Shape longer = shape;
    longer.num_microbatches = 48;
    const PipelineCosts costs = UniformCosts(8, 1, 2, 0.9);
    EXPECT_NEAR(FastMakespan(longer, costs) - FastMakespan(shape, costs), 24 * 2 * 3.0, 1e-9);
    shape.overlaps_transfers = longer.overlaps_transfers = false;
    EXPECT_NEAR(FastMakespan(longer, costs) - FastMakespan(shape, costs), 24 * 2 * 3.9, 1e-9);
  }
}

Shape RandomShape(std::mt19937& random) {
  const auto kind = static_cast<ScheduleKind>(random() % 4);
  const bool overlaps = random() % 2 == 0;
  if (kind != ScheduleKind::kInterleaved) {
    return {kind, 1 + static_cast<int>(random() % 10),
            1,    1 + static_cast<int>(random() % 150),
            0,    overlaps};
  }
  const int p = 2 + static_cast<int>(random() % 7);
  const int v = 2 + static_cast<int>(random() % 3);
  const int group = p + static_cast<int>(random() % 2 * (random() % 5));
  const int last = random() % 2 == 0 ? p + static_cast<int>(random() % (group - p + 1)) : 0;
  const int m = group * (1 + static_cast<int>(random() % 24)) + last % group;
  return {kind, p, v, m, group == p ? 0 : group, overlaps};
}

// Uneven stages; half of the time with many ties, where several loops set the same pace.
PipelineCosts RandomCosts(const Shape& shape, std::mt19937& random) {
  const int num_virtual_stages = shape.num_stages * shape.num_chunks;
  std::uniform_real_distribution<double> uniform(0.0, 1.0);
  const bool has_ties = random() % 2 == 0;
  const auto draw = [&](double scale_s) {
    return has_ties ? scale_s * (1 + 0.05 * static_cast<int>(3 * uniform(random)))
                    : scale_s * (0.5 + uniform(random));
  };
  const double transfer_scale_s = 0.3 * static_cast<double>(random() % 4);
  PipelineCosts costs;
  for (int v = 0; v < num_virtual_stages; ++v) {
    costs.forward_s.push_back(draw(1));
    costs.backward_s.push_back(draw(2));
    if (shape.kind == ScheduleKind::kZeroBubbleH1) costs.backward_weight_s.push_back(draw(1));
    if (v == 0) continue;
    costs.forward_transfer_s.push_back(draw(transfer_scale_s));
    costs.backward_transfer_s.push_back(draw(transfer_scale_s));
  }
  costs.send_overhead_s = random() % 2 == 0 ? 0.0 : 0.05;
  costs.transfers_overlap = shape.overlaps_transfers || random() % 3 != 0;
  return costs;
}

TEST(FastPipelineTimeTest, EqualsTheFullSimulation) {
  std::mt19937 random(7);
  for (int trial = 0; trial < 2000; ++trial) {
    const Shape shape = RandomShape(random);
    const PipelineCosts costs = RandomCosts(shape, random);
    spec::PipelineTimeline timeline;
    const PipelineResult full = SimulatePipeline(MakeSchedule(shape), costs, &timeline);
    const PipelineTime fast = FastPipelineTime(shape, costs);
    ASSERT_NEAR(fast.makespan_s / full.makespan_s, 1, 1e-12) << Describe(shape);
    for (int stage = 0; stage < shape.num_stages; ++stage) {
      const double end_s = timeline.by_stage[stage].back().end_s;
      ASSERT_NEAR(fast.stage_end_s[stage] / end_s, 1, 1e-12) << Describe(shape) << " " << stage;
    }
  }
}

// Nearly equal stages take long to settle: no repeat may be seen before there is one.
TEST(FastPipelineTimeTest, IsExactWhereStagesAreNearlyEqual) {
  std::mt19937 random(11);
  std::uniform_real_distribution<double> uniform(0.0, 1.0);
  for (const double spread : {1e-2, 1e-4, 1e-6, 1e-9, 1e-12}) {
    for (const int p : {2, 5, 8}) {
      PipelineCosts costs = UniformCosts(p, 1, 2, 0.1);
      for (double& cost_s : costs.forward_s) cost_s += spread * uniform(random);
      for (double& cost_s : costs.backward_s) cost_s += spread * uniform(random);
      const Shape shape{ScheduleKind::kOneForwardOneBackward, p, 1, 1500};
      const double full_s = SimulatePipeline(MakeSchedule(shape), costs).makespan_s;
      EXPECT_NEAR(FastMakespan(shape, costs) / full_s, 1, 1e-9) << "spread=" << spread;
    }
  }
}

TEST(PipelineSimulatorTest, EveryStageAccountsForTheWholeMakespan) {
  std::mt19937 random(13);
  for (int trial = 0; trial < 300; ++trial) {
    const Shape shape = RandomShape(random);
    const PipelineCosts costs = RandomCosts(shape, random);
    const PipelineResult result = SimulatePipeline(MakeSchedule(shape), costs);
    for (const PipelineStageTime& stage : result.stages) {
      EXPECT_NEAR(stage.Total() / result.makespan_s, 1, 1e-12) << Describe(shape);
      EXPECT_GE(stage.bubble_s, -1e-9) << Describe(shape);
    }
  }
}

TEST(PipelineSimulatorTest, NothingGetsFasterByCostingMore) {
  std::mt19937 random(17);
  for (int trial = 0; trial < 300; ++trial) {
    const Shape shape = RandomShape(random);
    const PipelineCosts costs = RandomCosts(shape, random);
    const double before_s = FastMakespan(shape, costs);
    PipelineCosts dearer = costs;
    std::vector<double>* const parts[] = {&dearer.forward_s, &dearer.backward_s,
                                          &dearer.forward_transfer_s, &dearer.backward_transfer_s};
    std::vector<double>& part = *parts[random() % 4];
    if (part.empty()) continue;
    part[random() % part.size()] += 0.3;
    EXPECT_GE(FastMakespan(shape, dearer), before_s - 1e-9) << Describe(shape);
    EXPECT_GE(SimulatePipeline(MakeSchedule(shape), dearer).makespan_s, before_s - 1e-9)
        << Describe(shape);
  }
}

TEST(PipelineSimulatorTest, TheTimelineHoldsTheScheduleInOrder) {
  std::mt19937 random(19);
  for (int trial = 0; trial < 50; ++trial) {
    const Shape shape = RandomShape(random);
    const PipelineSchedule schedule = MakeSchedule(shape);
    const PipelineCosts costs = RandomCosts(shape, random);
    spec::PipelineTimeline timeline;
    const PipelineResult result = SimulatePipeline(schedule, costs, &timeline);
    EXPECT_EQ(timeline.makespan_s, result.makespan_s);
    ASSERT_EQ(timeline.by_stage.size(), schedule.actions_by_stage.size());
    for (size_t stage = 0; stage < timeline.by_stage.size(); ++stage) {
      ASSERT_EQ(timeline.by_stage[stage].size(), schedule.actions_by_stage[stage].size());
      double busy_until_s = 0;
      for (size_t i = 0; i < timeline.by_stage[stage].size(); ++i) {
        const spec::TimedAction& timed = timeline.by_stage[stage][i];
        EXPECT_EQ(timed.action, schedule.actions_by_stage[stage][i]);
        EXPECT_GE(timed.end_s, timed.start_s);
        if (spec::IsTransfer(timed.action.kind)) continue;
        EXPECT_GE(timed.start_s, busy_until_s);  // one pass at a time
        busy_until_s = timed.end_s;
      }
    }
  }
}

TEST(PipelineSimulatorTest, ADeadlockIsNamed) {
  PipelineSchedule schedule = spec::MakeOneForwardOneBackward(2, 1);
  schedule.actions_by_stage[1].clear();
  try {
    SimulatePipeline(schedule, UniformCosts(2, 1, 2));
    FAIL() << "the first stage waits for a gradient that nobody sends";
  } catch (const base::CheckFailure& error) {
    EXPECT_THAT(error.what(), HasSubstr("the schedule deadlocks: stage 0 at 0RB0"));
  }
}

TEST(PipelineSimulatorTest, CostsOfTheWrongSizeAreABug) {
  const PipelineSchedule schedule = spec::MakeOneForwardOneBackward(4, 2);
  EXPECT_THROW(SimulatePipeline(schedule, UniformCosts(3, 1, 2)), base::CheckFailure);
  EXPECT_THROW(
      FastPipelineTime({ScheduleKind::kOneForwardOneBackward, 4, 1, 2}, UniformCosts(5, 1, 2)),
      base::CheckFailure);
  EXPECT_THROW(FastPipelineTime({ScheduleKind::kInterleaved, 4, 2, 6}, UniformCosts(8, 1, 2)),
               base::CheckFailure);
}

}  // namespace
}  // namespace tessera::cost_model
