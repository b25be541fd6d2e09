#include "cost_model/step_account.h"

#include <algorithm>

namespace tessera::cost_model {
namespace {

// The stage that has the most to do, all its micro-batches together.
BlockCost BusiestStage(const StepParts& parts, const spec::ParallelSpec& parallel) {
  BlockCost busiest;
  for (int stage = 0; stage < parallel.pipeline_parallel_size; ++stage) {
    const BlockCost cost = PipelineStageCost(parts, parallel, stage);
    if (cost.Forward() + cost.Backward() > busiest.Forward() + busiest.Backward()) busiest = cost;
  }
  BlockCost total;
  total.Add(busiest, static_cast<double>(parts.num_microbatches));
  return total;
}

// Seconds from the end of the pipeline until every stage has reduced its gradients.
double ReductionTail(const JobCosts& costs, const spec::ParallelSpec& parallel,
                     const StepParts& parts, const PipelineRun& run) {
  // On a pool of cores a reduction takes cores from the backward pass: nothing is hidden.
  const bool overlaps =
      parallel.overlap_grad_reduce && costs.job().cluster.shared_compute_units == 0;
  const double slowdown = Oversubscription(costs);
  double end_s = run.makespan_s;
  for (int stage = 0; stage < parallel.pipeline_parallel_size; ++stage) {
    const UpdateCost& update = parts.updates[stage];
    const double window_s = PipelineStageCost(parts, parallel, stage).Backward();
    const double exposed_s = ExposedReductionSeconds(update, window_s, overlaps) +
                             update.tied_comm_s + update.tensor_comm_s;
    end_s = std::max(end_s, run.finish_s[stage] + slowdown * exposed_s);
  }
  return end_s - run.makespan_s;
}

}  // namespace

spec::TimeBreakdown AccountStep(const JobCosts& costs, const spec::ParallelSpec& parallel,
                                const StepParts& parts, const PipelineRun& run) {
  const BlockCost busiest = BusiestStage(parts, parallel);
  const double slowdown = Oversubscription(costs);
  const double pipeline_s = run.makespan_without_transfers_s;
  const double busy_s = busiest.Forward() + busiest.Backward();
  // Work stretches where ranks wait for cores, but never past the pipeline's end.
  const double stretch = std::max(1.0, std::min(slowdown, pipeline_s / busy_s));

  spec::TimeBreakdown time;
  time.forward_s = stretch * busiest.forward_s;
  time.backward_s = stretch * busiest.backward_s;
  time.recompute_s = stretch * busiest.recompute_s;
  time.tp_comm_s = stretch * (busiest.forward_comm_s + busiest.backward_comm_s);
  time.bubble_s = std::max(0.0, pipeline_s - stretch * busy_s);
  time.pp_comm_s = run.makespan_s - pipeline_s;
  time.dp_comm_s = ReductionTail(costs, parallel, parts, run);

  const UpdateCost& slowest = *std::max_element(
      parts.updates.begin(), parts.updates.end(),
      [](const UpdateCost& a, const UpdateCost& b) { return a.AfterNorm() < b.AfterNorm(); });
  time.dp_comm_s += slowdown * slowest.gather_comm_s;
  time.optimizer_s = slowdown * slowest.optimizer_s;
  time.other_s = slowdown * slowest.other_s;
  return time;
}

}  // namespace tessera::cost_model
