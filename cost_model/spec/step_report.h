// One training step in numbers: the planner's prediction and the engine's measurement, in the same
// struct.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera::spec {

// Exposed seconds of the slowest pipeline's critical stage; they sum to step_time_s.
struct TimeBreakdown {
  double forward_s = 0;
  double backward_s = 0;
  double recompute_s = 0;
  double tp_comm_s = 0;
  double pp_comm_s = 0;
  double dp_comm_s = 0;
  double cp_comm_s = 0;
  double ep_comm_s = 0;
  double bubble_s = 0;
  double optimizer_s = 0;
  double other_s = 0;
  double straggler_s = 0;  // waiting for the slowest device
  double Total() const {
    return forward_s + backward_s + recompute_s + tp_comm_s + pp_comm_s + dp_comm_s + cp_comm_s +
           ep_comm_s + bubble_s + optimizer_s + other_s + straggler_s;
  }
  double Compute() const { return forward_s + backward_s + recompute_s; }
};

// Bytes on one rank of a pipeline stage.
struct StageMemory {
  int64_t weights_bytes = 0;
  int64_t gradients_bytes = 0;
  int64_t optimizer_bytes = 0;
  int64_t activations_bytes = 0;  // peak of what forward passes keep for backward passes
  int64_t buffers_bytes = 0;      // workspace, communication buffers, runtime
  int64_t Total() const {
    return weights_bytes + gradients_bytes + optimizer_bytes + activations_bytes + buffers_bytes;
  }
};

struct StepReport {
  double step_time_s = 0;
  double tokens_per_s = 0;
  double tokens_per_s_per_device = 0;
  double model_flops = 0;     // of one step, all devices, no recomputation
  double hardware_flops = 0;  // with recomputation
  double model_tflops_per_device = 0;
  double hardware_tflops_per_device = 0;
  double mfu = 0;
  double hfu = 0;
  TimeBreakdown time;
  std::vector<StageMemory> stages;  // by pipeline stage
  int64_t peak_bytes = 0;           // of the fullest stage
};

}  // namespace tessera::spec
