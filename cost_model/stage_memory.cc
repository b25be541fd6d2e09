#include "cost_model/stage_memory.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "cost_model/spec/workspace.h"

namespace tessera::cost_model {
namespace {

// Elements behind Tessera's bytes.
struct HeldElements {
  int64_t weights = 0;
  int64_t gradients = 0;
  int64_t optimizer = 0;
};

HeldElements ElementsOf(const spec::StateBytes& state, const spec::TrainingSpec& training,
                        const spec::ParallelSpec& parallel) {
  const spec::PrecisionTypes types = spec::TypesOf(training.precision);
  const int64_t optimizer_bytes = kMomentBytes + (types.has_master_weights ? kFloatBytes : 0);
  return {.weights = state.weights_bytes / base::SizeBytes(types.parameter),
          .gradients = state.gradients_bytes / spec::GradientBytes(training, parallel),
          .optimizer = state.optimizer_bytes / optimizer_bytes};
}

// Of the matrices that products multiply with; packed ones are one matrix.
std::vector<std::vector<int64_t>> WeightShapes(const spec::ModelSpec& model,
                                               const spec::ParallelSpec& parallel,
                                               const spec::VirtualStage& stage) {
  std::vector<std::vector<int64_t>> shapes;
  // Experts are alike: one stands for all.
  for (const spec::ParameterSpec& parameter :
       spec::StageParameters(model, parallel, stage, /*expert_rank=*/0, /*max_experts=*/1)) {
    if (parameter.global_shape.size() < 2) continue;
    const spec::LocalSlice slice = spec::SliceOf(parameter, parallel.tensor_parallel_size, 0);
    if (parameter.packed_with_previous && !shapes.empty()) {
      shapes.back().front() += slice.shape.front();
    } else {
      shapes.push_back(slice.shape);
    }
  }
  return shapes;
}

}  // namespace

spec::StateElements ElementsIn(const spec::RuntimeSpec& runtime, spec::StateElements elements) {
  if (!runtime.autograd) return elements;
  elements.largest_part = std::max(elements.largest_part, elements.shared_embedding);
  elements.shared_embedding = 0;
  return elements;
}

spec::ParallelSpec LayoutOfState(const spec::ClusterSpec& cluster, const spec::RuntimeSpec& runtime,
                                 spec::ParallelSpec parallel) {
  if (runtime.autograd) parallel.overlap_grad_reduce = false;
  if (cluster.shared_compute_units > 0) parallel.offload_optimizer = false;
  return parallel;
}

int UpdateSharers(const spec::ParallelSpec& parallel, const spec::RuntimeSpec& runtime) {
  const bool splits = runtime.splits_updates && parallel.zero_stage == 0;
  return splits ? parallel.data_parallel_size * parallel.context_parallel_size : 1;
}

spec::StateBytes StateBytesIn(const spec::StateBytes& state, const spec::TrainingSpec& training,
                              const spec::ParallelSpec& parallel,
                              const spec::RuntimeSpec& runtime) {
  const spec::PrecisionTypes types = spec::TypesOf(training.precision);
  const HeldElements elements = ElementsOf(state, training, parallel);
  int64_t gradient_bytes = spec::GradientBytes(training, parallel);
  const bool is_fp32 = gradient_bytes == kFloatBytes;
  int64_t optimizer_bytes = kMomentBytes;
  if (types.has_master_weights && !runtime.fp32_parameters) optimizer_bytes += kFloatBytes;
  if (runtime.fp32_gradient_shard && !is_fp32) {
    // Unsharded, DeepSpeed copies each gradient and then all of them into one, which stays where a
    // step overflows.
    optimizer_bytes += parallel.zero_stage == 0 ? 2 * kFloatBytes : kFloatBytes;
  }
  if (runtime.compute_type_gradients && is_fp32 && types.has_master_weights) {
    gradient_bytes += base::SizeBytes(types.activation);
  }
  spec::StateBytes bytes = state;
  bytes.weights_bytes =
      elements.weights * (runtime.fp32_parameters ? kFloatBytes : base::SizeBytes(types.parameter));
  bytes.gradients_bytes = elements.gradients * gradient_bytes;
  bytes.optimizer_bytes = elements.optimizer * optimizer_bytes;
  bytes.optimizer_bytes /= UpdateSharers(parallel, runtime);
  return bytes;
}

int64_t PlaceholderBytes(const spec::ModelSpec& model, const spec::TrainingSpec& training,
                         const spec::ParallelSpec& parallel, const spec::VirtualStage& stage) {
  std::set<std::vector<int64_t>> shapes;
  spec::PerForm<bool> is_seen = {};
  for (int layer = stage.first_layer; layer < stage.first_layer + stage.num_layers; ++layer) {
    bool& seen = is_seen[spec::IndexOf(spec::LayerFormOf(model, layer))];
    if (seen) continue;  // layers of one form have the same shapes
    seen = true;
    const spec::VirtualStage alone{.index = 1, .first_layer = layer, .num_layers = 1};
    for (std::vector<int64_t>& shape : WeightShapes(model, parallel, alone)) {
      shapes.insert(std::move(shape));
    }
  }
  int64_t elements = 0;
  for (const std::vector<int64_t>& shape : shapes) {
    int64_t product = 1;
    for (const int64_t size : shape) product *= size;
    elements += product;
  }
  return elements * base::SizeBytes(spec::TypesOf(training.precision).activation);
}

spec::StateBytes SplitPositions(const spec::StateBytes& state, const spec::ModelSpec& model,
                                const spec::TrainingSpec& training,
                                const spec::ParallelSpec& parallel,
                                const spec::RuntimeSpec& runtime) {
  const int64_t tp = parallel.tensor_parallel_size;
  if (!runtime.shards_position_embedding || !parallel.sequence_parallel || tp == 1 ||
      model.position != spec::PositionKind::kLearned || parallel.zero_stage >= 3) {
    return state;
  }
  const int64_t positions = static_cast<int64_t>(model.max_sequence_length) * model.hidden_size;
  const int64_t elements = ElementsOf(state, training, parallel).weights;
  // Gradients and optimizer state shrink with the weights, however they are sharded.
  const double left =
      static_cast<double>(elements - positions + positions / tp) / static_cast<double>(elements);
  const auto scaled = [left](int64_t num_bytes) {
    return std::llround(left * static_cast<double>(num_bytes));
  };
  spec::StateBytes split = state;
  split.weights_bytes = scaled(state.weights_bytes);
  split.gradients_bytes = scaled(state.gradients_bytes);
  split.optimizer_bytes = scaled(state.optimizer_bytes);
  return split;
}

int NumCommunicators(const spec::ParallelSpec& parallel) {
  int count = spec::WorldSize(parallel) > 1 ? 1 : 0;
  for (const int size :
       {parallel.tensor_parallel_size, parallel.pipeline_parallel_size, parallel.data_parallel_size,
        parallel.context_parallel_size, parallel.expert_parallel_size}) {
    if (size > 1) ++count;
  }
  const bool is_split = parallel.tensor_parallel_size * parallel.pipeline_parallel_size > 1;
  return is_split ? count + 1 : count;
}

StageBuffers BuffersOf(const spec::ClusterSpec& cluster, const spec::TrainingSpec& training,
                       const spec::ParallelSpec& parallel, const spec::RuntimeSpec& runtime,
                       const StageParts& parts) {
  StageBuffers buffers;
  buffers.workspace_bytes = runtime.autograd ? cluster.device.matmul_workspace_bytes
                                             : parts.workspace_bytes + spec::kStepSumsBytes +
                                                   spec::BackendWorkspaceBytes(cluster);
  buffers.placeholder_bytes = runtime.weight_gradient_placeholders ? parts.placeholder_bytes : 0;
  const int64_t element_bytes = base::SizeBytes(spec::TypesOf(training.precision).activation);
  buffers.gathered_bytes = parts.state.gathered_bytes;
  if (runtime.gathers_embedding_and_head && parts.state.gathered_bytes > 0) {
    buffers.gathered_bytes += parts.end_elements * element_bytes;
  }
  buffers.unreduced_bytes = parts.state.unreduced_bytes;
  // With stage 2 the buckets of these programs hold them.
  if (runtime.autograd && parallel.zero_stage < 3) buffers.unreduced_bytes = 0;
  if (parallel.data_parallel_size * parallel.context_parallel_size > 1) {
    buffers.communication_bytes = runtime.communication_buffer_elements * element_bytes;
  }
  const double copies_bytes = runtime.flattens_gradients && parallel.zero_stage < 3
                                  ? static_cast<double>(element_bytes + kFloatBytes)
                                  : 0;
  const double update_bytes =
      (runtime.update_bytes_per_parameter + copies_bytes) *
      static_cast<double>(ElementsOf(parts.state, training, parallel).optimizer);
  buffers.update_bytes = std::max<int64_t>(0, std::llround(update_bytes) - parts.activations_bytes);
  buffers.context_bytes = cluster.device.reserved_memory_bytes +
                          NumCommunicators(parallel) * cluster.device.communicator_memory_bytes;
  return buffers;
}

spec::StageMemory AssembleStage(const spec::ClusterSpec& cluster,
                                const spec::TrainingSpec& training,
                                const spec::ParallelSpec& parallel,
                                const spec::RuntimeSpec& runtime, const StageParts& parts) {
  const spec::StateBytes state = StateBytesIn(parts.state, training, parallel, runtime);
  const StageBuffers buffers = BuffersOf(cluster, training, parallel, runtime, parts);
  spec::StageMemory memory;
  memory.weights_bytes = state.weights_bytes;
  memory.gradients_bytes = state.gradients_bytes;
  memory.optimizer_bytes = state.optimizer_bytes;
  memory.activations_bytes = parts.activations_bytes;
  memory.buffers_bytes = buffers.workspace_bytes + buffers.placeholder_bytes +
                         buffers.gathered_bytes + buffers.unreduced_bytes +
                         buffers.communication_bytes + buffers.update_bytes + buffers.context_bytes;
  memory.context_bytes = buffers.context_bytes;
  if (cluster.shared_compute_units == 0) {
    // The allocator gives back what it does not need before it fails.
    const int64_t left_bytes = std::max<int64_t>(0, cluster.device.memory_bytes - memory.Total());
    memory.reserve_bytes = std::min<int64_t>(
        left_bytes,
        std::llround(runtime.allocator_reserve * static_cast<double>(memory.Allocated())));
  }
  return memory;
}

}  // namespace tessera::cost_model
