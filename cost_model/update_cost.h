// What follows a stage's last backward pass: gradients are reduced, the optimizer runs, updated
// parameters are gathered.
#pragma once

#include "cost_model/job_costs.h"

namespace tessera::cost_model {

// Parameters of one rank of a pipeline stage, in elements.
struct StageParameterCounts {
  int64_t elements = 0;
  int64_t expert_elements = 0;  // of them, those of the experts held here
  int64_t tied = 0;
  int64_t tokenwise = 0;
  int64_t kv_replicated = 0;
  bool operator==(const StageParameterCounts&) const = default;
};
StageParameterCounts CountParameters(const ParameterCounts& counts,
                                     const spec::PerForm<int>& num_layers, bool has_embedding,
                                     bool has_head);

struct UpdateCost {
  // Before the gradient norm, at which all stages meet.
  double gradient_comm_s = 0;  // all buckets of one rank, over data and context ranks
  int64_t num_buckets = 1;
  double tied_comm_s = 0;    // first and last stage add the gradients of their shared embedding
  double tensor_comm_s = 0;  // gradients of parameters that tensor ranks hold together
  // After it.
  double optimizer_s = 0;
  double other_s = 0;        // clearing gradients, their norm
  double gather_comm_s = 0;  // all-gather of the parameters that each rank updated

  double AfterNorm() const { return optimizer_s + other_s + gather_comm_s; }
};

// ZeRO stage 0 all-reduces fp32 gradients and updates every parameter on every rank; stage 1
// reduce-scatters them, updates the rank's share and all-gathers parameters in their own type
// (Rajbhandari et al. 2020, arXiv:1910.02054).
UpdateCost MakeUpdateCost(const JobCosts& costs, const spec::ParallelSpec& parallel,
                          const LayoutGroups& groups, const StageParameterCounts& parameters);

// Seconds by which the reduction of gradients outlasts the backward pass of the last micro-batch,
// `window_s` long: n equal buckets become ready evenly through it and are reduced one after the
// other, so max(t, n t - window (n - 1) / n) for t a bucket's time; all of it without overlap.
double ExposedReductionSeconds(const UpdateCost& update, double window_s, bool overlaps);

}  // namespace tessera::cost_model
