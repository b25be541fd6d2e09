// How a training program executes the step that the other specs describe: which kernels it fuses,
// what it keeps, which options it has. Behaviour of programs, never of machines: configs/runtimes.
#pragma once

#include <cstdint>
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
  // Where a fused softmax is written for few shapes: rows of so many scores at most (0: any), whose
  // number of sequences times heads here is such a multiple. Else scaling, mask and an fp32 softmax
  // run one after the other, and scores are kept in both types.
  int64_t fused_softmax_max_keys = 0;
  int64_t fused_softmax_heads_multiple = 1;
  bool fused_residual = true;  // bias, dropout, residual
  bool fused_rope = true;
  bool fused_cross_entropy = true;  // no fp32 copy of the logits beside their gradient
  bool fused_permute = true;        // of routed rows; else sums by scattered additions
  bool fused_optimizer = true;
  bool fused_gradient_accumulation = true;  // weight gradients added to by the product itself
  // Dropout whose masks are kept, a byte an element; the engine draws its masks again.
  bool hidden_dropout = false;
  bool attention_dropout = false;
  // Queries, keys and values, the attention's output and the gradients of both are copied to
  // contiguous memory.
  bool attention_copies = false;
  // Memory of a pass. Without autograd, a layer's tensors stay until its backward pass is over,
  // beside one workspace that all layers share (Tessera). With it, each goes once its operation's
  // backward pass has run, and what that pass makes comes on top of those left.
  bool autograd = false;
  bool keeps_gathered_inputs = false;  // sequence parallelism: norm outputs kept gathered over tp
  // Selective recomputation keeps attention's output and, of every other product from the first on,
  // the result where the backward pass reads it (torchtitan, compiled), instead of all but the
  // attention's statistics.
  bool keeps_alternate_products = false;
  bool keeps_stage_outputs = false;    // pipeline buffers hold what a stage has sent on
  bool fp32_logits_gradient = false;   // of a fused cross entropy: fp32, else over the logits
  int fp32_logits_copies = 1;          // of an unfused one, alive at once beside the logits
  int sharded_fp32_logits_copies = 0;  // the same of a vocabulary split over ranks; 0: as many
  // Empty tensors that stand for weight gradients which the product has added to the main
  // gradients: one for each shape of a layer, for good, and one for the head while it runs.
  bool weight_gradient_placeholders = false;
  // State of a parameter: fp32 parameters without a 16-bit copy (FSDP); 16-bit gradients beside
  // fp32 ones; an fp32 copy of the gradients whose optimizer state is here; more that only the
  // update needs.
  bool fp32_parameters = false;
  bool compute_type_gradients = false;
  bool fp32_gradient_shard = false;
  double update_bytes_per_parameter = 0;
  // Up to ZeRO 2 the update also copies the own gradients into one tensor of their type and one of
  // fp32.
  bool flattens_gradients = false;
  bool splits_updates = false;  // over data ranks, with the optimizer state, even where ZeRO is off
  bool gathers_embedding_and_head = false;    // ZeRO 3: theirs are whole from start to end
  bool shards_position_embedding = false;     // over tensor ranks, under sequence parallelism
  int64_t communication_buffer_elements = 0;  // buckets beside the gradients, activation type
  // Reserved over allocated bytes, less 1, of the program's allocator: on average, and how much
  // more at worst. The second is the margin of the answer whether a layout fits.
  double allocator_reserve = 0.04;
  double allocator_reserve_margin = 0;
  std::string memory_tag = "measured";  // or "estimated": how well the above is known
  std::string memory_source = "the engine's allocations, which its tests hold to the prediction";
  // Time of fused attention as a multiple of the best kernels' for the device: earlier generations
  // of them are slower.
  double fused_attention_time_factor = 1;
  // Of the copies of a token for experts on one other node one crosses; that node spreads it, and
  // adds up what comes back (DeepSeek-AI 2024, arXiv:2412.19437, section 3.2.2).
  bool deduplicated_dispatch = false;
  // Time that the host takes for one kernel, as a multiple of the machine's own (cluster files);
  // 0: captured graphs, no host time.
  double host_time_factor = 1;
  // Every pass of a layer finds the device idle, and its collectives run once its computing is
  // done: sums of layers that were timed one by one. Else the host runs ahead from layer to layer.
  bool layers_start_idle = false;

  // In the backward pass tensor-parallel collectives run beside the products of weight gradients
  // (Korthikanti et al. 2022, arXiv:2205.05198, section 4.2.2).
  bool tensor_comm_beside_weight_gradients = false;
  // What overlap_tp_comm adds: all-gathers and reduce-scatters cut into pieces, one a rank, and
  // pipelined with the products that read or write them (Wang et al. 2023,
  // doi:10.1145/3567955.3567959). Without: collectives beside the products of weight gradients.
  bool tensor_comm_in_pieces = false;

  // What it can run, for searches.
  std::vector<std::string> schedules = {"gpipe", "1f1b", "interleaved", "zb-h1"};
  int max_zero_stage = 1;
  bool context_parallel = false;
  bool expert_parallel = false;
  bool uneven_stages = true;
  bool per_stage_recompute = true;  // recomputed_layers_per_virtual_stage may differ
  bool optimizer_offload = false;
  bool operator==(const RuntimeSpec&) const = default;
};

// Whether the softmax of unfused attention over so many sequences times heads, each query with so
// many keys, is one kernel.
inline bool FusesSoftmax(const RuntimeSpec& runtime, int64_t batch_heads, int64_t keys) {
  return runtime.fused_softmax && batch_heads % runtime.fused_softmax_heads_multiple == 0 &&
         (runtime.fused_softmax_max_keys == 0 || keys <= runtime.fused_softmax_max_keys);
}

}  // namespace tessera::spec
