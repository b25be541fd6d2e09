#include "cost_model/spec/stage_partition.h"

#include <algorithm>
#include <numeric>

#include "cost_model/base/check.h"

namespace tessera::spec {
namespace {

// Layers of each of `num_stages` virtual stages, as even as can be. The stages with one layer more
// form one run in the middle: neighbours lie on different pipeline stages, so no pipeline stage
// gets more than its share of them. Where the run cannot be centred, the last stage keeps one layer
// less, since the head outweighs the embedding.
std::vector<int> EvenLayers(int num_layers, int num_stages) {
  std::vector<int> layers(num_stages, num_layers / num_stages);
  const int remainder = num_layers % num_stages;
  const int first = (num_stages - remainder) / 2;
  for (int stage = first; stage < first + remainder; ++stage) ++layers[stage];
  return layers;
}

}  // namespace

std::vector<VirtualStage> PartitionStages(const ModelSpec& model, const ParallelSpec& parallel) {
  const int num_stages = parallel.pipeline_parallel_size;
  const int num_virtual_stages = num_stages * parallel.virtual_pipeline_size;
  const std::vector<int> layers = parallel.layers_per_virtual_stage.empty()
                                      ? EvenLayers(model.num_layers, num_virtual_stages)
                                      : parallel.layers_per_virtual_stage;
  TESSERA_CHECK(static_cast<int>(layers.size()) == num_virtual_stages, "layers are given for ",
                layers.size(), " of ", num_virtual_stages, " virtual stages");
  const int total = std::accumulate(layers.begin(), layers.end(), 0);
  TESSERA_CHECK(total == model.num_layers, "the virtual stages hold ", total, " layers, the model ",
                model.num_layers);

  std::vector<VirtualStage> stages;
  stages.reserve(layers.size());
  int first_layer = 0;
  for (int index = 0; index < num_virtual_stages; ++index) {
    stages.push_back({.index = index,
                      .pipeline_stage = index % num_stages,
                      .chunk = index / num_stages,
                      .first_layer = first_layer,
                      .num_layers = layers[index],
                      .has_embedding = index == 0,
                      .has_head = index == num_virtual_stages - 1});
    first_layer += layers[index];
  }
  return stages;
}

std::vector<VirtualStage> StagesOf(const std::vector<VirtualStage>& stages, int pipeline_stage) {
  std::vector<VirtualStage> own;
  for (const VirtualStage& stage : stages) {
    if (stage.pipeline_stage == pipeline_stage) own.push_back(stage);
  }
  return own;
}

int RecomputedLayers(const ParallelSpec& parallel, const VirtualStage& stage) {
  const std::vector<int>& recomputed = parallel.recomputed_layers_per_virtual_stage;
  if (recomputed.empty()) return stage.num_layers;
  return std::min(recomputed.at(stage.index), stage.num_layers);
}

ParallelSpec KeepingLayers(const ParallelSpec& parallel) {
  ParallelSpec keeping = parallel;
  keeping.recompute = Recompute::kNone;
  keeping.recomputed_layers_per_virtual_stage.clear();
  return keeping;
}

}  // namespace tessera::spec
