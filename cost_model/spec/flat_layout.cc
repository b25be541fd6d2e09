#include "cost_model/spec/flat_layout.h"

#include <algorithm>
#include <map>
#include <span>
#include <utility>

#include "cost_model/base/check.h"
#include "cost_model/spec/flat_placer.h"

namespace tessera::spec {
namespace {

constexpr int64_t kMomentBytes = 8;  // AdamW's m and v in fp32
constexpr int64_t kMasterBytes = 4;  // fp32 master weights of mixed precision

// Places parameters of one gradient group behind what the layout has.
void AppendBuffer(std::span<const ParameterSpec> parameters, const ParallelSpec& parallel,
                  bool is_expert, FlatLayout& layout) {
  const int64_t begin = layout.num_elements;
  const auto num_before = static_cast<int>(layout.parameters.size());
  FlatPlacer placer(parallel.bucket_elements, BucketMultiple(parallel, is_expert));
  for (const ParameterSpec& parameter : parameters) {
    TESSERA_CHECK(parameter.is_expert == is_expert, parameter.name, " in a buffer of others");
    const FlatItem item{
        SliceOf(parameter, TensorSizeOf(parameter, parallel), /*tensor_rank=*/0).num_elements,
        parameter.packed_with_previous};
    layout.parameters.push_back(
        {.offset = begin + placer.Place(item), .num_elements = item.num_elements});
  }
  layout.num_elements += placer.Finish();
  for (FlatBucket bucket : placer.buckets()) {
    bucket.offset += begin;
    bucket.first_parameter += num_before;
    bucket.is_expert = is_expert;
    layout.buckets.push_back(bucket);
  }
}

}  // namespace

std::vector<ParameterSpec> RankParameters(const ModelSpec& model, const ParallelSpec& parallel,
                                          const std::vector<VirtualStage>& stages_of_rank,
                                          int expert_rank) {
  std::vector<ParameterSpec> parameters;
  for (const VirtualStage& stage : stages_of_rank) {
    for (ParameterSpec& parameter : StageParameters(model, parallel, stage, expert_rank)) {
      parameters.push_back(std::move(parameter));
    }
  }
  std::stable_partition(parameters.begin(), parameters.end(),
                        [](const ParameterSpec& parameter) { return !parameter.is_expert; });
  return parameters;
}

FlatLayout MakeFlatLayout(const std::vector<ParameterSpec>& parameters,
                          const ParallelSpec& parallel) {
  const auto first_expert =
      std::find_if(parameters.begin(), parameters.end(),
                   [](const ParameterSpec& parameter) { return parameter.is_expert; });
  FlatLayout layout;
  AppendBuffer({parameters.begin(), first_expert}, parallel, /*is_expert=*/false, layout);
  AppendBuffer({first_expert, parameters.end()}, parallel, /*is_expert=*/true, layout);
  return layout;
}

bool ReducesEachMicrobatch(const ParallelSpec& parallel) {
  return parallel.zero_stage == 3 ||
         (parallel.zero_stage == 2 && parallel.pipeline_parallel_size == 1);
}

int64_t GradientBytes(const TrainingSpec& training, const ParallelSpec& parallel) {
  return std::min(base::SizeBytes(TypesOf(training.precision).gradient),
                  base::SizeBytes(parallel.gradient_reduce_type));
}

StateBytes StateBytesOf(const std::vector<VirtualStage>& stages_of_rank, const ModelSpec& model,
                        const TrainingSpec& training, const ParallelSpec& parallel) {
  std::vector<ParameterSpec> experts, others;
  // Elements of the parts that are gathered one by one: layers, embedding (-2) and head (-1).
  std::map<int, int64_t> parts;
  for (const VirtualStage& stage : stages_of_rank) {
    bool is_past_layers = !stage.has_embedding;
    for (ParameterSpec& parameter : StageParameters(model, parallel, stage)) {
      is_past_layers = is_past_layers || parameter.layer >= 0;
      const int part = parameter.layer >= 0 ? parameter.layer : is_past_layers ? -1 : -2;
      parts[part] +=
          SliceOf(parameter, TensorSizeOf(parameter, parallel), /*tensor_rank=*/0).num_elements;
      (parameter.is_expert ? experts : others).push_back(std::move(parameter));
    }
  }
  StateElements elements;
  elements.expert_elements = MakeFlatLayout(experts, parallel).num_elements;
  elements.elements = MakeFlatLayout(others, parallel).num_elements + elements.expert_elements;
  for (const auto& [layer, num_elements] : parts) {
    elements.largest_part = std::max(elements.largest_part, num_elements);
    if (layer >= 0) elements.largest_layer = std::max(elements.largest_layer, num_elements);
  }
  return StateBytesOf(elements, training, parallel);
}

StateBytes StateBytesOf(const StateElements& elements, const TrainingSpec& training,
                        const ParallelSpec& parallel) {
  const auto held = [&](bool is_sharded) {
    if (!is_sharded) return elements.elements;
    int64_t shard = (elements.elements - elements.expert_elements) / ShardGroupSize(parallel);
    if (elements.expert_elements > 0) {
      shard += elements.expert_elements / ExpertShardGroupSize(parallel);
    }
    return shard;
  };
  const PrecisionTypes types = TypesOf(training.precision);
  const int64_t parameter_bytes = base::SizeBytes(types.parameter);
  const int64_t gradient_bytes = GradientBytes(training, parallel);
  const int64_t optimizer_bytes = kMomentBytes + (types.has_master_weights ? kMasterBytes : 0);
  StateBytes bytes;
  bytes.weights_bytes = held(parallel.zero_stage >= 3) * parameter_bytes;
  bytes.gradients_bytes = held(ReducesEachMicrobatch(parallel)) * gradient_bytes;
  if (!parallel.offload_optimizer) {
    bytes.optimizer_bytes = held(parallel.zero_stage >= 1) * optimizer_bytes;
  }
  if (parallel.zero_stage >= 3 && ShardGroupSize(parallel) > 1) {
    bytes.gathered_bytes = (elements.largest_part + elements.largest_layer) * parameter_bytes +
                           elements.largest_part * gradient_bytes;
  }
  return bytes;
}

}  // namespace tessera::spec
