#include "cost_model/memory_terms.h"

#include <algorithm>
#include <string>

namespace tessera::cost_model {
namespace {

// Bytes of the optimizer state that are master weights.
int64_t MasterBytes(const spec::TrainingSpec& training, const spec::ParallelSpec& parallel,
                    const spec::RuntimeSpec& runtime, const StageParts& parts) {
  const bool has_master =
      spec::TypesOf(training.precision).has_master_weights && !runtime.fp32_parameters;
  if (!has_master) return 0;
  // Tessera's optimizer state of mixed precision: master weights and two moments.
  return parts.state.optimizer_bytes / (kFloatBytes + kMomentBytes) * kFloatBytes /
         UpdateSharers(parallel, runtime);
}

// What the running pass holds beyond the tensors of the passes in flight: logits and gradients of
// the head, or a layer brought back by recomputation with the working set of its backward pass.
int64_t RunningBytes(const std::vector<spec::StageActivationBytes>& by_chunk) {
  int64_t most_bytes = 0;
  for (const spec::StageActivationBytes& chunk : by_chunk) {
    most_bytes = std::max(most_bytes, chunk.working_bytes - chunk.layers_bytes);
  }
  return most_bytes;
}

spec::NumberSource ContextSource(const spec::ClusterSpec& cluster) {
  const auto source = cluster.sources.find("/device/reserved_memory_bytes");
  if (source == cluster.sources.end()) return {.tag = "estimated", .text = cluster.name};
  const bool is_measured = source->second.tag == "measured" || source->second.tag == "spec";
  return {.tag = is_measured ? "measured" : "estimated", .text = source->second.text};
}

}  // namespace

std::vector<spec::MemoryTerm> MemoryTermsOf(
    const spec::ClusterSpec& cluster, const spec::TrainingSpec& training,
    const spec::ParallelSpec& parallel, const spec::RuntimeSpec& runtime, const StageParts& parts,
    const std::vector<spec::StageActivationBytes>& by_chunk, const spec::StageMemory& memory) {
  std::vector<spec::MemoryTerm> terms;
  const auto add = [&](const char* name, int64_t num_bytes, const std::string& tag,
                       const std::string& source) {
    if (num_bytes > 0) terms.push_back({name, num_bytes, tag, source});
  };
  const auto add_known = [&](const char* name, int64_t num_bytes) {
    add(name, num_bytes, runtime.memory_tag, runtime.memory_source);
  };
  const std::string estimated = "estimated";
  const int64_t master_bytes = MasterBytes(training, parallel, runtime, parts);
  const int64_t running_bytes = std::min(RunningBytes(by_chunk), memory.activations_bytes);
  const StageBuffers buffers = BuffersOf(cluster, training, parallel, runtime, parts);
  add_known("weights", memory.weights_bytes);
  add_known("gradients", memory.gradients_bytes);
  add_known("master weights", master_bytes);
  add_known("optimizer state", memory.optimizer_bytes - master_bytes);
  add_known("activations of passes in flight", memory.activations_bytes - running_bytes);
  add_known("head or layer of the running pass", running_bytes);
  add_known("workspace", buffers.workspace_bytes);
  add_known("placeholders of weight gradients", buffers.placeholder_bytes);
  add("gathered parameters", buffers.gathered_bytes, estimated, "parts whole at once");
  add("gradients on their way", buffers.unreduced_bytes, estimated, "parts whole at once");
  add("communication buckets", buffers.communication_bytes, estimated, runtime.memory_source);
  add("temporaries of the update", buffers.update_bytes, estimated, runtime.memory_source);
  const spec::NumberSource context = ContextSource(cluster);
  add("context and communicators", buffers.context_bytes, context.tag, context.text);
  add("allocator reserve", memory.reserve_bytes, runtime.memory_tag, runtime.memory_source);
  return terms;
}

}  // namespace tessera::cost_model
