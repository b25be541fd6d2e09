#include "cost_model/pipeline_run.h"

#include <algorithm>
#include <utility>

#include "cost_model/pipeline_simulator.h"

namespace tessera::cost_model {
namespace {

PipelineCosts MakePipelineCosts(const StepParts& parts, const spec::ParallelSpec& parallel) {
  const bool splits_backward = parallel.schedule == spec::ScheduleKind::kZeroBubbleH1;
  PipelineCosts costs;
  costs.forward_s.reserve(parts.costs.size());
  costs.backward_s.reserve(parts.costs.size());
  for (const BlockCost& cost : parts.costs) {
    costs.forward_s.push_back(cost.Forward());
    costs.backward_s.push_back(cost.Backward());
    if (!splits_backward) continue;
    costs.backward_s.back() -= cost.backward_weight_s;
    costs.backward_weight_s.push_back(cost.backward_weight_s);
  }
  costs.forward_transfer_s = parts.transfer_s;
  costs.backward_transfer_s = parts.transfer_s;
  return costs;
}

PipelineCosts WithoutTransfers(PipelineCosts costs) {
  std::fill(costs.forward_transfer_s.begin(), costs.forward_transfer_s.end(), 0.0);
  std::fill(costs.backward_transfer_s.begin(), costs.backward_transfer_s.end(), 0.0);
  return costs;
}

bool LacksCores(const JobCosts& costs) { return Oversubscription(costs) > 1; }

// A stage starts (+1) or stops (-1) computing.
struct Edge {
  double time_s = 0;
  int change = 0;
};

std::vector<Edge> ComputeEdges(const spec::PipelineTimeline& timeline) {
  std::vector<Edge> edges;
  for (const std::vector<spec::TimedAction>& actions : timeline.by_stage) {
    for (const spec::TimedAction& timed : actions) {
      if (spec::IsTransfer(timed.action.kind)) continue;
      edges.push_back({timed.start_s, +1});
      edges.push_back({timed.end_s, -1});
    }
  }
  std::sort(edges.begin(), edges.end(),
            [](const Edge& a, const Edge& b) { return a.time_s < b.time_s; });
  return edges;
}

// Moments of a timeline in which every rank had a core of its own, told as they come on a pool of
// `num_cores`: while `n` stages of `ranks_per_stage` compute, time runs n * ranks / cores slower.
class SharedClock {
 public:
  SharedClock(const spec::PipelineTimeline& timeline, int ranks_per_stage, int num_cores) {
    int num_computing = 0;
    double real_s = 0, previous_s = 0;
    for (const Edge& edge : ComputeEdges(timeline)) {
      const double slowdown =
          std::max(1.0, static_cast<double>(num_computing) * ranks_per_stage / num_cores);
      real_s += (edge.time_s - previous_s) * slowdown;
      marks_.push_back({edge.time_s, real_s});
      previous_s = edge.time_s;
      num_computing += edge.change;
    }
  }

  double At(double time_s) const {
    const auto after =
        std::lower_bound(marks_.begin(), marks_.end(), time_s,
                         [](const Mark& mark, double value) { return mark.time_s < value; });
    if (after == marks_.end()) {
      return marks_.empty() ? time_s : marks_.back().real_s + time_s - marks_.back().time_s;
    }
    if (after == marks_.begin()) return after->real_s;
    const Mark& before = *(after - 1);
    const double share = (time_s - before.time_s) / (after->time_s - before.time_s);
    return before.real_s + share * (after->real_s - before.real_s);
  }

 private:
  struct Mark {
    double time_s = 0;
    double real_s = 0;
  };
  std::vector<Mark> marks_;
};

PipelineTime FastTime(const spec::ParallelSpec& parallel, const StepParts& parts,
                      const PipelineCosts& pipeline) {
  return FastPipelineTime({.kind = parallel.schedule,
                           .num_stages = parallel.pipeline_parallel_size,
                           .num_chunks = parallel.virtual_pipeline_size,
                           .num_microbatches = static_cast<int>(parts.num_microbatches),
                           .group_size = parallel.microbatch_group_size,
                           .overlaps_transfers = parallel.overlap_pp_comm},
                          pipeline);
}

// A stage on shared cores.
struct SharedStageRun {
  double end_s = 0;          // of its last action
  double busy_s = 0;         // its computing, had it cores of its own
  double shared_busy_s = 0;  // its computing, as long as it takes
};

SharedStageRun OnSharedClock(const std::vector<spec::TimedAction>& actions,
                             const SharedClock& clock) {
  SharedStageRun run{.end_s = clock.At(actions.back().end_s)};
  for (const spec::TimedAction& timed : actions) {
    if (spec::IsTransfer(timed.action.kind)) continue;
    run.busy_s += timed.end_s - timed.start_s;
    run.shared_busy_s += clock.At(timed.end_s) - clock.At(timed.start_s);
  }
  return run;
}

spec::PipelineTimeline Simulate(const spec::ParallelSpec& parallel, const PipelineCosts& pipeline,
                                int64_t num_microbatches) {
  spec::PipelineTimeline timeline;
  SimulatePipeline(spec::MakeSchedule(parallel, static_cast<int>(num_microbatches)), pipeline,
                   &timeline);
  return timeline;
}

SharedClock ClockOf(const Job& job, const spec::ParallelSpec& parallel,
                    const spec::PipelineTimeline& timeline) {
  return {timeline, job.num_devices / parallel.pipeline_parallel_size,
          job.cluster.shared_compute_units};
}

// By stage. How many stages compute at the same time is seen in the timeline alone.
std::vector<SharedStageRun> PlayOnSharedCores(const Job& job, const spec::ParallelSpec& parallel,
                                              const PipelineCosts& pipeline,
                                              int64_t num_microbatches) {
  const spec::PipelineTimeline timeline = Simulate(parallel, pipeline, num_microbatches);
  const SharedClock clock = ClockOf(job, parallel, timeline);
  std::vector<SharedStageRun> runs;
  for (const std::vector<spec::TimedAction>& actions : timeline.by_stage) {
    runs.push_back(OnSharedClock(actions, clock));
  }
  return runs;
}

// A pipeline that is full repeats itself: what a long run takes lies on a line through two shorter
// ones, whole groups of micro-batches apart.
std::vector<SharedStageRun> RunOnSharedCores(const Job& job, const spec::ParallelSpec& parallel,
                                             const PipelineCosts& pipeline,
                                             int64_t num_microbatches) {
  constexpr int64_t kGroups = 8;
  const int64_t group_size = spec::MicrobatchGroupSize(parallel);
  const int64_t num_apart = kGroups * group_size;
  if (num_microbatches <= 2 * num_apart) {
    return PlayOnSharedCores(job, parallel, pipeline, num_microbatches);
  }
  const int64_t num_fewer = num_apart + num_microbatches % group_size;
  const auto shorter = PlayOnSharedCores(job, parallel, pipeline, num_fewer);
  auto runs = PlayOnSharedCores(job, parallel, pipeline, num_fewer + num_apart);
  const double position =
      static_cast<double>(num_microbatches - num_fewer) / static_cast<double>(num_apart);
  const auto extend = [&](double first_s, double& second_s) {
    second_s = first_s + position * (second_s - first_s);
  };
  for (size_t stage = 0; stage < runs.size(); ++stage) {
    extend(shorter[stage].end_s, runs[stage].end_s);
    extend(shorter[stage].busy_s, runs[stage].busy_s);
    extend(shorter[stage].shared_busy_s, runs[stage].shared_busy_s);
  }
  return runs;
}

// By stage.
struct Ends {
  std::vector<double> end_s;    // of its last action
  std::vector<double> stretch;  // as in PipelineRun
};

Ends StageEnds(const JobCosts& costs, const spec::ParallelSpec& parallel, const StepParts& parts,
               const PipelineCosts& pipeline) {
  if (!LacksCores(costs)) {
    return {.end_s = FastTime(parallel, parts, pipeline).stage_end_s, .stretch = {}};
  }
  Ends ends;
  for (const SharedStageRun& run :
       RunOnSharedCores(costs.job(), parallel, pipeline, parts.num_microbatches)) {
    ends.end_s.push_back(run.end_s);
    ends.stretch.push_back(run.shared_busy_s / run.busy_s);
  }
  return ends;
}

double Latest(const std::vector<double>& times_s) {
  return *std::max_element(times_s.begin(), times_s.end());
}

double MessageSeconds(const spec::Action& send, const PipelineCosts& pipeline) {
  return send.kind == spec::ActionKind::kSendForward
             ? pipeline.forward_transfer_s[send.virtual_stage]
             : pipeline.backward_transfer_s[send.virtual_stage - 1];
}

}  // namespace

double Oversubscription(const JobCosts& costs) {
  const int units = costs.job().cluster.shared_compute_units;
  if (units == 0) return 1;
  return std::max(1.0, static_cast<double>(costs.job().num_devices) / units);
}

PipelineRun RunPipeline(const JobCosts& costs, const spec::ParallelSpec& parallel,
                        const StepParts& parts) {
  const PipelineCosts pipeline = MakePipelineCosts(parts, parallel);
  Ends ends = StageEnds(costs, parallel, parts, pipeline);
  PipelineRun run;
  run.makespan_s = Latest(ends.end_s);
  run.finish_s = ends.end_s;
  if (parallel.pipeline_parallel_size > 1) {
    ends = StageEnds(costs, parallel, parts, WithoutTransfers(pipeline));
  }
  run.makespan_without_transfers_s = Latest(ends.end_s);
  run.stretch = std::move(ends.stretch);
  return run;
}

PipelineRun RunPipelineFast(const JobCosts& costs, const spec::ParallelSpec& parallel,
                            const StepParts& parts) {
  const PipelineCosts pipeline = MakePipelineCosts(parts, parallel);
  const PipelineTime time = FastTime(parallel, parts, pipeline);
  PipelineRun run{.makespan_s = time.makespan_s,
                  .makespan_without_transfers_s = time.makespan_s,
                  .finish_s = time.stage_end_s,
                  .stretch = {}};
  if (!LacksCores(costs)) return run;
  double work_s = 0;
  for (const BlockCost& cost : parts.costs) work_s += cost.Forward() + cost.Backward();
  const Job& job = costs.job();
  const double all_ranks_s = work_s * static_cast<double>(parts.num_microbatches) *
                             (job.num_devices / parallel.pipeline_parallel_size);
  const double shared_s = all_ranks_s / job.cluster.shared_compute_units;
  if (shared_s <= run.makespan_s) return run;
  const double stretch = shared_s / run.makespan_s;
  run.makespan_s *= stretch;
  run.makespan_without_transfers_s *= stretch;
  for (double& end_s : run.finish_s) end_s *= stretch;
  return run;
}

spec::PipelineTimeline PlayPipeline(const JobCosts& costs, const spec::ParallelSpec& parallel,
                                    const StepParts& parts) {
  const PipelineCosts pipeline = MakePipelineCosts(parts, parallel);
  spec::PipelineTimeline timeline = Simulate(parallel, pipeline, parts.num_microbatches);
  for (std::vector<spec::TimedAction>& actions : timeline.by_stage) {
    for (spec::TimedAction& timed : actions) {
      if (!spec::IsSend(timed.action.kind)) continue;
      timed.end_s = std::max(timed.end_s, timed.start_s + MessageSeconds(timed.action, pipeline));
    }
  }
  if (!LacksCores(costs)) return timeline;
  const SharedClock clock = ClockOf(costs.job(), parallel, timeline);
  // Of long pipelines RunPipeline reads the end off a line through two shorter ones.
  const double makespan_s = Latest(StageEnds(costs, parallel, parts, pipeline).end_s);
  const double scale = makespan_s / clock.At(timeline.makespan_s);
  for (std::vector<spec::TimedAction>& actions : timeline.by_stage) {
    for (spec::TimedAction& timed : actions) {
      timed.start_s = scale * clock.At(timed.start_s);
      timed.end_s = scale * clock.At(timed.end_s);
    }
  }
  timeline.makespan_s = makespan_s;
  return timeline;
}

}  // namespace tessera::cost_model
