#include "cost_model/step_account.h"

#include <algorithm>

namespace tessera::cost_model {
namespace {

double OverlapSlowdown(const JobCosts& costs) {
  return costs.job().cluster.collectives.overlap_slowdown;
}

// The stage that has the most to do.
int BusiestStage(const StepParts& parts, const spec::ParallelSpec& parallel) {
  int busiest = 0;
  double most_s = 0;
  for (int stage = 0; stage < parallel.pipeline_parallel_size; ++stage) {
    const BlockCost cost = PipelineStageCost(parts, parallel, stage);
    const double work_s = cost.Forward() + cost.Backward();
    if (work_s <= most_s) continue;
    busiest = stage;
    most_s = work_s;
  }
  return busiest;
}

// The update that takes longest after the norm.
UpdateCost SlowestAfterNorm(const JobCosts& costs, const spec::ParallelSpec& parallel,
                            const StepParts& parts) {
  UpdateCost slowest;
  double longest_s = -1;
  for (int stage = 0; stage < parallel.pipeline_parallel_size; ++stage) {
    const UpdateCost update = ExposedUpdate(costs, parallel, parts, stage);
    if (update.AfterNorm() <= longest_s) continue;
    longest_s = update.AfterNorm();
    slowest = update;
  }
  return slowest;
}

}  // namespace

double ExposedReductionSeconds(const JobCosts& costs, const spec::ParallelSpec& parallel,
                               const StepParts& parts, int stage) {
  const UpdateCost& update = parts.updates[stage];
  const BlockCost cost = PipelineStageCost(parts, parallel, stage);
  // Gradients are complete as the last pass that adds to them gets there.
  const double window_s = parallel.schedule == spec::ScheduleKind::kZeroBubbleH1
                              ? cost.backward_weight_s
                              : cost.Backward();
  const double exposed_s =
      ExposedPartsSeconds(update.gradient_comm_s, update.num_buckets, window_s,
                          OverlapsReduction(costs, parallel), OverlapSlowdown(costs)) +
      update.replica_comm_s + update.tied_comm_s + update.tensor_comm_s;
  return Oversubscription(costs) * exposed_s;
}

double ReductionEnd(const JobCosts& costs, const spec::ParallelSpec& parallel,
                    const StepParts& parts, const PipelineRun& run) {
  double end_s = run.makespan_s;
  for (int stage = 0; stage < parallel.pipeline_parallel_size; ++stage) {
    end_s = std::max(end_s,
                     run.finish_s[stage] + ExposedReductionSeconds(costs, parallel, parts, stage));
  }
  return end_s;
}

UpdateCost ExposedUpdate(const JobCosts& costs, const spec::ParallelSpec& parallel,
                         const StepParts& parts, int stage) {
  UpdateCost update = parts.updates[stage];
  if (parallel.overlap_param_gather && costs.job().cluster.shared_compute_units == 0) {
    update.gather_comm_s = ExposedPartsSeconds(update.gather_comm_s, update.num_buckets,
                                               PipelineStageCost(parts, parallel, stage).Forward(),
                                               true, OverlapSlowdown(costs));
  }
  return update;
}

spec::TimeBreakdown AccountStep(const JobCosts& costs, const spec::ParallelSpec& parallel,
                                const StepParts& parts, const PipelineRun& run) {
  const int busiest = BusiestStage(parts, parallel);
  const double slowdown = Oversubscription(costs);
  BlockCost work;  // of the busiest stage, as long as it takes with the cores there are
  work.Add(PipelineStageCost(parts, parallel, busiest),
           static_cast<double>(parts.num_microbatches) *
               (run.stretch.empty() ? 1.0 : run.stretch[busiest]));
  const double pipeline_s = run.makespan_without_transfers_s;

  spec::TimeBreakdown time;
  time.forward_s = work.forward_s;
  time.backward_s = work.backward_s;
  time.recompute_s = work.recompute_s;
  const AxisSeconds comm = work.Communication();
  time.tp_comm_s = comm.tensor_s;
  time.cp_comm_s = comm.context_s;
  time.ep_comm_s = comm.expert_s;
  time.bubble_s = std::max(0.0, pipeline_s - work.Forward() - work.Backward());
  // Differences of equal times may round to less than nothing.
  time.pp_comm_s = std::max(0.0, run.makespan_s - pipeline_s);
  time.dp_comm_s =
      comm.data_s + std::max(0.0, ReductionEnd(costs, parallel, parts, run) - run.makespan_s);
  const UpdateCost slowest = SlowestAfterNorm(costs, parallel, parts);
  time.dp_comm_s += slowdown * slowest.gather_comm_s;
  time.optimizer_s = slowdown * slowest.optimizer_s;
  time.other_s = slowdown * slowest.other_s;
  // All ranks meet in every step: each waits for the slowest one's work.
  time.straggler_s = costs.network().straggler_share * run.makespan_s;
  return time;
}

}  // namespace tessera::cost_model
