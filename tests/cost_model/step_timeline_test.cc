#include "cost_model/step_timeline.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "cost_model/step_cost.h"
#include "tests/cost_model/test_jobs.h"

namespace tessera::cost_model {
namespace {

using spec::PhaseKind;
using spec::RankTimeline;

// So that no phase vanishes.
Job LatentJob() {
  Job job = RoundJob(16);
  job.cluster.inter_node.latency_s = 8e-6;
  job.cluster.intra_node.latency_s = 3e-6;
  job.cluster.pace_deviation = 0.01;
  return job;
}

spec::ParallelSpec ScheduledLayout(int tp, int pp, int dp, int vpp, spec::ScheduleKind schedule) {
  spec::ParallelSpec parallel;
  parallel.tensor_parallel_size = tp;
  parallel.pipeline_parallel_size = pp;
  parallel.data_parallel_size = dp;
  parallel.virtual_pipeline_size = vpp;
  parallel.schedule = schedule;
  return parallel;
}

std::vector<spec::ParallelSpec> Layouts() {
  using enum spec::ScheduleKind;
  std::vector<spec::ParallelSpec> layouts;
  for (spec::ParallelSpec layout :
       {ScheduledLayout(1, 1, 16, 1, kOneForwardOneBackward),
        ScheduledLayout(2, 4, 2, 1, kOneForwardOneBackward), ScheduledLayout(2, 4, 2, 1, kGPipe),
        ScheduledLayout(2, 4, 2, 2, kInterleaved), ScheduledLayout(1, 8, 2, 1, kZeroBubbleH1)}) {
    for (const int zero_stage : {0, 1}) {
      for (const auto recompute : {spec::Recompute::kNone, spec::Recompute::kFull}) {
        layout.zero_stage = zero_stage;
        layout.recompute = recompute;
        layouts.push_back(layout);
      }
    }
  }
  return layouts;
}

// When the last of all stages ends. [s]
double EndOf(const std::vector<RankTimeline>& timelines) {
  double end_s = 0;
  for (const RankTimeline& timeline : timelines) {
    for (const spec::TimedAction& timed : timeline.actions) end_s = std::max(end_s, timed.end_s);
    for (const spec::TimedPhase& phase : timeline.phases) end_s = std::max(end_s, phase.end_s);
  }
  return end_s;
}

double PhaseSeconds(const RankTimeline& timeline, PhaseKind kind) {
  double sum_s = 0;
  for (const spec::TimedPhase& phase : timeline.phases) {
    if (phase.kind == kind) sum_s += phase.end_s - phase.start_s;
  }
  return sum_s;
}

TEST(StepTimelineTest, TheLastOfItEndsWithTheStep) {
  JobCosts costs(LatentJob());
  for (const spec::ParallelSpec& layout : Layouts()) {
    const double step_time_s = PriceStep(costs, layout).report.step_time_s;
    const double end_s = EndOf(PredictTimelines(costs, layout));
    EXPECT_NEAR(end_s, step_time_s, 1e-9 * step_time_s) << spec::ToString(layout.schedule);
  }
}

TEST(StepTimelineTest, StagesRunTheirActionsOneAfterTheOtherThenTheirPhases) {
  JobCosts costs(LatentJob());
  for (const spec::ParallelSpec& layout : Layouts()) {
    const spec::PipelineSchedule schedule =
        spec::MakeSchedule(layout, 64 / layout.data_parallel_size);
    const std::vector<RankTimeline> timelines = PredictTimelines(costs, layout);
    ASSERT_EQ(timelines.size(), schedule.actions_by_stage.size());
    for (size_t stage = 0; stage < timelines.size(); ++stage) {
      const std::vector<spec::Action>& actions = schedule.actions_by_stage[stage];
      ASSERT_EQ(timelines[stage].actions.size(), actions.size());
      double now_s = 0;
      for (size_t i = 0; i < actions.size(); ++i) {
        const spec::TimedAction& timed = timelines[stage].actions[i];
        ASSERT_EQ(timed.action, actions[i]);
        EXPECT_LE(timed.start_s, timed.end_s);
        if (spec::IsTransfer(timed.action.kind)) continue;
        EXPECT_GE(timed.start_s, now_s - 1e-12);
        now_s = timed.end_s;
      }
      for (const spec::TimedPhase& phase : timelines[stage].phases) {
        // Gradients are reduced beside the last backward passes.
        if (phase.kind != PhaseKind::kReduceGradients) {
          EXPECT_GE(phase.start_s, now_s - 1e-12);
        }
        now_s = phase.end_s;
      }
    }
  }
}

TEST(StepTimelineTest, AMessageArrivesWhenItsReceiveEnds) {
  JobCosts costs(LatentJob());
  const spec::ParallelSpec layout = Layouts()[4];
  const std::vector<RankTimeline> timelines = PredictTimelines(costs, layout);
  int num_checked = 0;
  for (const RankTimeline& timeline : timelines) {
    for (const spec::TimedAction& sent : timeline.actions) {
      if (!spec::IsSend(sent.action.kind)) continue;
      const spec::Action awaited = spec::CounterpartOf(sent.action);
      const RankTimeline& peer =
          timelines[static_cast<size_t>(awaited.virtual_stage % layout.pipeline_parallel_size)];
      for (const spec::TimedAction& received : peer.actions) {
        if (received.action.kind != awaited.kind ||
            received.action.microbatch != awaited.microbatch ||
            received.action.virtual_stage != awaited.virtual_stage) {
          continue;
        }
        // Not before; later where the receiver had other work to do.
        EXPECT_GE(received.end_s, sent.end_s - 1e-12);
        ++num_checked;
      }
    }
  }
  EXPECT_EQ(num_checked, 2 * 3 * 32);  // there and back, three boundaries, 32 micro-batches
}

TEST(StepTimelineTest, PhasesTakeWhatTheStepReportSays) {
  JobCosts costs(LatentJob());
  const spec::ParallelSpec layout =
      ScheduledLayout(1, 1, 16, 1, spec::ScheduleKind::kOneForwardOneBackward);
  const spec::TimeBreakdown time = PriceStep(costs, layout).report.time;
  const RankTimeline timeline = PredictTimelines(costs, layout).front();
  EXPECT_NEAR(PhaseSeconds(timeline, PhaseKind::kOptimizer), time.optimizer_s, 1e-12);
  EXPECT_NEAR(PhaseSeconds(timeline, PhaseKind::kOther), time.other_s, 1e-12);
  EXPECT_NEAR(PhaseSeconds(timeline, PhaseKind::kWait), time.straggler_s, 1e-12);
  EXPECT_GT(time.straggler_s, 0);
  // Some of the reduction is hidden by the backward pass.
  EXPECT_GT(PhaseSeconds(timeline, PhaseKind::kReduceGradients) +
                PhaseSeconds(timeline, PhaseKind::kGatherParameters),
            time.dp_comm_s);
}

TEST(StepTimelineTest, MemoryRisesToThePredictedPeakAndFallsBack) {
  JobCosts costs(LatentJob());
  for (const spec::ParallelSpec& layout : Layouts()) {
    const spec::StepReport report = PriceStep(costs, layout).report;
    const std::vector<RankTimeline> timelines = PredictTimelines(costs, layout);
    for (size_t stage = 0; stage < timelines.size(); ++stage) {
      const std::vector<spec::MemorySample>& memory = timelines[stage].memory;
      int64_t most_bytes = 0;
      for (const spec::MemorySample& sample : memory) {
        most_bytes = std::max(most_bytes, sample.num_bytes);
      }
      EXPECT_EQ(most_bytes, report.stages[stage].Total());
      EXPECT_EQ(memory.front().num_bytes, memory.back().num_bytes);
      EXPECT_EQ(most_bytes - memory.front().num_bytes, report.stages[stage].activations_bytes);
    }
  }
}

// More ranks than cores: the same clock for all of them.
TEST(StepTimelineTest, OnSharedCoresItEndsWithTheStepToo) {
  Job job = RoundJob(16);
  job.cluster.shared_compute_units = 4;
  job.cluster.devices_per_node = 16;
  for (const int batch_size : {32, 512}) {  // played in full, and read off a line
    job.training.global_batch_size = batch_size;
    JobCosts costs(job);
    const spec::ParallelSpec layout =
        ScheduledLayout(1, 8, 2, 1, spec::ScheduleKind::kOneForwardOneBackward);
    const double step_time_s = PriceStep(costs, layout).report.step_time_s;
    const double end_s = EndOf(PredictTimelines(costs, layout));
    EXPECT_NEAR(end_s, step_time_s, 1e-9 * step_time_s) << batch_size;
  }
}

}  // namespace
}  // namespace tessera::cost_model
