#include <algorithm>
#include <nlohmann/json.hpp>

#include "cost_model/base/check.h"
#include "cost_model/spec/megatron_layout_json.h"
#include "cost_model/spec/stage_partition.h"

namespace tessera::spec {
namespace {

using base::Concat;
using Names = MegatronFields::Names;

// With "block", Megatron-LM recomputes the first so many layers of every virtual stage.
std::vector<int> FirstOfEachStage(const ModelSpec& model, const ParallelSpec& parallel,
                                  int num_layers) {
  const int num_stages = parallel.pipeline_parallel_size * parallel.virtual_pipeline_size;
  std::vector<int> layers = parallel.layers_per_virtual_stage;
  if (layers.empty() && model.num_layers >= num_stages) {
    for (const VirtualStage& stage : PartitionStages(model, parallel)) {
      layers.push_back(stage.num_layers);
    }
  }
  const std::vector<int> all = layers;
  for (int& count : layers) count = std::min(count, num_layers);
  return layers == all ? std::vector<int>() : layers;  // empty: all of them
}

std::optional<Recompute> ReadGranularity(MegatronArguments& arguments) {
  std::optional<Recompute> recompute;
  if (const auto index = arguments.Choice({"recompute_granularity"}, {"full", "selective"})) {
    recompute = *index == 0 ? Recompute::kFull : Recompute::kSelective;
  }
  if (arguments.FlagOr({"recompute_activations"}, false)) recompute = Recompute::kSelective;
  if (arguments.FlagOr({"checkpoint_activations"}, false)) recompute = Recompute::kFull;
  return recompute;
}

void Read(MegatronFields& fields, const ModelSpec& model, ParallelSpec& parallel) {
  MegatronArguments& arguments = fields.arguments();
  const std::optional<Recompute> recompute = ReadGranularity(arguments);
  const std::optional<std::size_t> method =
      arguments.Choice({"recompute_method"}, {"uniform", "block"});
  arguments.Only("recompute_modules", "core_attn", "what selective recomputation means here");
  arguments.Skip({"distribute_saved_activations"});
  fields.Set("recompute", parallel.recompute, recompute, std::optional(Recompute::kNone));
  if (method != 1U) {
    arguments.Only("recompute_num_layers", 1, "one layer recomputed at a time");
    return;
  }
  const std::optional<int64_t> count = arguments.Integer({"recompute_num_layers"}, kCountRange);
  const int num_layers = static_cast<int>(std::min<int64_t>(count.value_or(1), model.num_layers));
  fields.Set("recomputed_layers_per_virtual_stage", parallel.recomputed_layers_per_virtual_stage,
             std::optional(FirstOfEachStage(model, parallel, num_layers)));
}

void Write(MegatronFields& fields, const ModelSpec& model, const ParallelSpec& parallel) {
  if (parallel.recompute == Recompute::kNone) return;
  if (parallel.recompute == Recompute::kSelective) {
    return fields.Write("recompute_granularity", "selective");
  }
  fields.Write("recompute_granularity", "full");
  const std::vector<int>& layers = parallel.recomputed_layers_per_virtual_stage;
  const int most = layers.empty() ? 0 : *std::max_element(layers.begin(), layers.end());
  const std::vector<int> expressible = FirstOfEachStage(model, parallel, most);
  if (layers.empty() || expressible.empty()) {
    fields.Write("recompute_method", "uniform");
    fields.Write("recompute_num_layers", 1);
  } else {
    fields.Write("recompute_method", "block");
    fields.Write("recompute_num_layers", most);
  }
  if (!layers.empty() && !expressible.empty() && layers != expressible) {
    fields.Warn(Concat("Megatron-LM recomputes as many layers on every stage: ", most,
                       ", the most of any stage of the plan, which is slower and takes less "
                       "memory."));
  }
}

}  // namespace

void VisitMegatronRecompute(MegatronFields& fields, const ModelSpec& model,
                            ParallelSpec& parallel) {
  if (fields.is_reading()) {
    Read(fields, model, parallel);
  } else {
    Write(fields, model, parallel);
  }
}

}  // namespace tessera::spec
