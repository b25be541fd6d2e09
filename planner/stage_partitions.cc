#include "planner/stage_partitions.h"

#include <algorithm>

#include "cost_model/spec/stage_partition.h"

namespace tessera::planner {
namespace {

constexpr int kMostFewerOnFirst = 2;
constexpr int kMostFewerOnLast = 3;

std::vector<int> EvenPartition(int num_layers, int num_virtual_stages) {
  spec::ModelSpec model;
  model.num_layers = num_layers;
  spec::ParallelSpec parallel;
  parallel.pipeline_parallel_size = num_virtual_stages;
  std::vector<int> layers;
  for (const spec::VirtualStage& stage : spec::PartitionStages(model, parallel)) {
    layers.push_back(stage.num_layers);
  }
  return layers;
}

}  // namespace

std::vector<std::vector<int>> StagePartitions(int num_layers, int num_virtual_stages) {
  std::vector<std::vector<int>> partitions = {{}};
  if (num_virtual_stages < 2 || num_layers < num_virtual_stages) return partitions;
  std::vector<std::vector<int>> seen = {EvenPartition(num_layers, num_virtual_stages)};
  const int share = num_layers / num_virtual_stages;
  const int num_middle = num_virtual_stages - 2;
  for (int on_last = share; on_last >= std::max(0, share - kMostFewerOnLast); --on_last) {
    for (int on_first = share; on_first >= std::max(0, share - kMostFewerOnFirst); --on_first) {
      std::vector<int> layers = {num_layers - on_last, on_last};
      if (num_middle > 0) {
        layers = EvenPartition(num_layers - on_first - on_last, num_middle);
        layers.insert(layers.begin(), on_first);
        layers.push_back(on_last);
      }
      if (std::find(seen.begin(), seen.end(), layers) != seen.end()) continue;
      seen.push_back(layers);
      partitions.push_back(std::move(layers));
    }
  }
  return partitions;
}

}  // namespace tessera::planner
