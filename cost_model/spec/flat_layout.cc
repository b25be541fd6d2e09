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
  FlatPlacer placer(parallel, BucketMultiple(parallel, is_expert));
  for (const FlatItem& item : FlatItemsOf(parameters, parallel)) {
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
  TESSERA_CHECK(std::all_of(first_expert, parameters.end(),
                            [](const ParameterSpec& parameter) { return parameter.is_expert; }),
                "experts come last");
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

bool IsSharded(bool is_expert, const ParallelSpec& parallel) {
  return (is_expert ? ExpertShardGroupSize(parallel) : ShardGroupSize(parallel)) > 1;
}

int64_t GatheredElements(const StateElements& elements, const ParallelSpec& parallel) {
  if (parallel.zero_stage < 3) return 0;
  return elements.shared_embedding + elements.largest_part + elements.largest_layer;
}

int64_t UnreducedElements(const StateElements& elements, const ParallelSpec& parallel) {
  if (!ReducesEachMicrobatch(parallel)) return 0;
  return elements.shared_embedding + elements.largest_part +
         (parallel.overlap_grad_reduce ? elements.largest_layer : 0);
}

StateElements StateElementsOf(const std::vector<ParameterSpec>& parameters,
                              const FlatLayout& layout, const ModelSpec& model,
                              const ParallelSpec& parallel) {
  StateElements elements{.elements = layout.num_elements};
  std::map<int, int64_t> parts;
  for (const FlatBucket& bucket : layout.buckets) {
    if (bucket.is_expert) elements.expert_elements += bucket.num_elements;
    if (!IsSharded(bucket.is_expert, parallel)) continue;
    parts[parameters[bucket.first_parameter].layer] += bucket.num_elements;
  }
  if (HeadReadsEmbedding(model) && parts.contains(kEmbeddingPart) && parts.contains(kHeadPart)) {
    elements.shared_embedding = parts.extract(kEmbeddingPart).mapped();
  }
  for (const auto& [part, num_elements] : parts) {
    elements.largest_part = std::max(elements.largest_part, num_elements);
    if (part >= 0) elements.largest_layer = std::max(elements.largest_layer, num_elements);
  }
  return elements;
}

StateBytes StateBytesOf(const std::vector<VirtualStage>& stages_of_rank, const ModelSpec& model,
                        const TrainingSpec& training, const ParallelSpec& parallel) {
  const std::vector<ParameterSpec> parameters =
      RankParameters(model, parallel, stages_of_rank, /*expert_rank=*/0);
  return StateBytesOf(
      StateElementsOf(parameters, MakeFlatLayout(parameters, parallel), model, parallel), training,
      parallel);
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
  bytes.gathered_bytes = GatheredElements(elements, parallel) * parameter_bytes;
  bytes.unreduced_bytes = UnreducedElements(elements, parallel) * gradient_bytes;
  return bytes;
}

}  // namespace tessera::spec
