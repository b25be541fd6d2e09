// One training step in numbers: the planner's prediction and the engine's measurement, in the same
// struct.
#pragma once

#include <cstdint>
#include <string>
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

// A part of a stage's memory. `tag` is measured (held against allocations) or estimated.
struct MemoryTerm {
  std::string name;
  int64_t num_bytes = 0;
  std::string tag;
  std::string source;
  bool operator==(const MemoryTerm&) const = default;
};

// Bytes on one rank of a pipeline stage.
struct StageMemory {
  int64_t weights_bytes = 0;
  int64_t gradients_bytes = 0;
  int64_t optimizer_bytes = 0;    // master weights included
  int64_t activations_bytes = 0;  // peak of what forward passes keep for backward passes
  int64_t buffers_bytes = 0;      // workspace, communication buffers, context
  int64_t context_bytes = 0;      // of the buffers: taken past the allocator of tensors
  int64_t reserve_bytes = 0;      // what that allocator keeps beyond the tensors; not in Total
  std::vector<MemoryTerm> terms;  // of a prediction: they sum to Used()
  int64_t Total() const {
    return weights_bytes + gradients_bytes + optimizer_bytes + activations_bytes + buffers_bytes;
  }
  // The three ways in which such memory is measured: tensors alive, what their allocator holds,
  // what the device's owner sees (nvidia-smi).
  int64_t Allocated() const { return Total() - context_bytes; }
  int64_t Reserved() const { return Allocated() + reserve_bytes; }
  int64_t Used() const { return Total() + reserve_bytes; }
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

// The report without the terms of its memory: for files that hold many layouts.
inline StepReport WithoutTerms(StepReport report) {
  for (StageMemory& stage : report.stages) stage.terms.clear();
  return report;
}

}  // namespace tessera::spec
