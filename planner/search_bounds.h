// What no layout of a family can undercut: admissible bounds, for a search that must not miss the
// best.
#pragma once

#include <limits>

#include "cost_model/step_cost.h"
#include "planner/search_space.h"

namespace tessera::planner {

// Seconds that a step takes at least, whatever the layers of its stages and the end of the step:
// every stage computes its share of m micro-batches, so the slowest m / p of the model's work W. A
// stage of 1F1B or GPipe also waits for the passes of the stages before it, first forward and at
// last backward: with w_r the work of stage r and P_r that of the stages before it, X >= P_r + m
// w_r for all r, whose least solution over all partitions is W / (1 - (1 - 1 / m)^p). On a pool of
// cores all ranks' work takes its share of the cores. `layout` has the mesh and the family's
// choices; layers that may be recomputed or not count as not recomputed.
// REQUIRES: FindViolations and FindUnpriced are empty.
double StepTimeBound(cost_model::JobCosts& costs, const spec::ParallelSpec& layout);

// The same for given layers of the stages, without the end of the step either: each stage computes
// its own work m times, after the first forward pass of the first chunks of the stages before it,
// and before their last backward pass (of ZB-H1, which may end with weight passes, after the one
// alone).
struct PartitionBound {
  double time_s = 0;
  double first_backward_s = 0;  // of the first stage, one micro-batch
};
PartitionBound PartitionTimeBound(cost_model::JobCosts& costs, const spec::ParallelSpec& layout);

// The fewest layers of each form that any of the partitions gives a virtual stage, and of the
// chunks of a pipeline stage the fewest for all.
using StageForms = std::vector<spec::PerForm<int>>;
StageForms FewestLayers(const spec::ModelSpec& model, const spec::ParallelSpec& layout,
                        const std::vector<std::vector<int>>& partitions);
// Bytes that the memory limit holds against the device at least, with those layers, all of them
// recomputed as `layout` says. `enough_bytes`: see cost_model::StepBytesOf.
double NeededBound(cost_model::JobCosts& costs, const spec::ParallelSpec& layout,
                   const StageForms& fewest,
                   double enough_bytes = std::numeric_limits<double>::infinity());

// Seconds from the end of the pipeline to that of the step at least, with the layout's end of the
// step and layers as few as `fewest` (see FewestLayers): the first stage, whose backward pass is
// the last of all but in ZB-H1, reduces its gradients as far as that pass, of `window_s` at most,
// does not hide it; then its update runs. Of parameters gathered beside the next forward pass what
// slows that pass down counts alone.
double EndTimeBound(cost_model::JobCosts& costs, const spec::ParallelSpec& layout,
                    const StageForms& fewest, double window_s);

// Of a layout's fast price in seconds, what the exact one cannot be below. On a pool with more
// ranks than cores, long runs are extrapolated: the bound leaves 2 % for that.
double ExactTimeBound(const cost_model::JobCosts& costs, double fast_s);

}  // namespace tessera::planner
