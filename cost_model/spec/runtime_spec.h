// How a training program executes the step that the other specs describe: which kernels it fuses,
// what it keeps, which options it has. Behaviour of programs, never of machines: configs/runtimes.
#pragma once

#include <string>
#include <vector>

#include "cost_model/spec/parallel_spec.h"

namespace tessera::spec {

// Defaults are Tessera's own engine.
struct RuntimeSpec {
  std::string name = "tessera";

  // Kernels. An operation that is not fused is a chain of element-wise kernels, each with its own
  // passes over memory and its own launch.
  bool fused_norm = true;
  bool product_epilogues = true;  // bias and GELU inside the matrix product
  bool fused_activation = true;   // outside of it: bias and GELU in one kernel; SwiGLU in one
  bool fused_softmax = true;      // of unfused attention: scale, mask, softmax
  bool fused_residual = true;     // bias, dropout, residual
  bool fused_rope = true;
  bool fused_cross_entropy = true;  // no fp32 copy of the logits beside their gradient
  bool fused_permute = true;        // of routed rows; else sums by scattered additions
  bool fused_optimizer = true;
  bool fused_gradient_accumulation = true;  // weight gradients added to by the product itself
  bool hidden_dropout = false;              // masks of a byte an element are kept
  bool attention_dropout = false;
  // Queries, keys and values, the attention's output and the gradients of both are copied to
  // contiguous memory.
  bool attention_copies = false;
  // Of the copies of a token for experts on one other node one crosses; that node spreads it, and
  // adds up what comes back (DeepSeek-AI 2024, arXiv:2412.19437, section 3.2.2).
  bool deduplicated_dispatch = false;
  // Time that the host takes for one kernel, as a multiple of the machine's own (cluster files);
  // 0: captured graphs, no host time.
  double host_time_factor = 1;

  // What it can run, for searches.
  std::vector<std::string> schedules = {"gpipe", "1f1b", "interleaved"};
  int max_zero_stage = 1;
  bool context_parallel = false;
  bool expert_parallel = false;
  bool uneven_stages = true;
  bool per_stage_recompute = false;  // recomputed_layers_per_virtual_stage may differ
  bool optimizer_offload = false;
  bool operator==(const RuntimeSpec&) const = default;
};

}  // namespace tessera::spec
