#include "planner/fewest_recomputed.h"

#include <algorithm>

#include "cost_model/step_memory.h"

namespace tessera::planner {
namespace {

class Recomputation {
 public:
  Recomputation(const Request& request, cost_model::JobCosts& costs, spec::ParallelSpec& layout)
      : request_(request),
        costs_(costs),
        layout_(layout),
        parts_(cost_model::MakeStepLayers(request.job, WithNone(layout))),
        layers_(parts_.stages.size(), 0) {}

  int MostLayersOfAStage() const {
    int most = 0;
    for (const spec::VirtualStage& stage : parts_.stages) most = std::max(most, stage.num_layers);
    return most;
  }

  // From here on `count` layers of each stage are recomputed.
  void SetAll(int count) {
    layout_.recompute = spec::Recompute::kFull;
    parts_.recomputed.resize(parts_.stages.size());
    for (size_t i = 0; i < layers_.size(); ++i) Set(i, count);
  }

  // More than `enough_bytes` is not worked out.
  double NeededBytes(double enough_bytes) const {
    return cost_model::StepBytesOf(costs_, layout_, parts_, cost_model::Padding::kOfBuckets,
                                   std::max(enough_bytes, AvailableBytes()))
        .needed_bytes;
  }
  bool Fits(double needed_bytes) const { return needed_bytes <= AvailableBytes(); }
  bool Fits() const { return Fits(NeededBytes(0)); }

  // A stage's memory depends on its own layers alone, so each is reduced by itself.
  void ReduceByStage() {
    for (size_t i = 0; i < layers_.size(); ++i) {
      int too_few = -1;
      int enough = layers_[i];
      while (enough - too_few > 1) {
        const int middle = (too_few + enough) / 2;
        Set(i, middle);
        (StageFits(i) ? enough : too_few) = middle;
      }
      Set(i, enough);
    }
  }

  std::vector<int> TakeLayers() { return std::move(layers_); }

 private:
  static const spec::ParallelSpec& WithNone(spec::ParallelSpec& layout) {
    layout.recompute = spec::Recompute::kNone;
    layout.recomputed_layers_per_virtual_stage.clear();
    return layout;
  }

  void Set(size_t i, int count) {
    spec::VirtualStage first_layers = parts_.stages[i];
    first_layers.num_layers = layers_[i] = std::min(count, first_layers.num_layers);
    parts_.recomputed[i] = spec::CountForms(request_.job.model, first_layers);
  }

  double AvailableBytes() const {
    return static_cast<double>(request_.job.cluster.device.memory_bytes);
  }

  bool StageFits(size_t virtual_stage) const {
    if (request_.job.cluster.shared_compute_units > 0) return Fits();
    const int stage = parts_.stages[virtual_stage].pipeline_stage;
    return Fits(cost_model::StageNeededBytes(costs_, layout_, parts_, stage));
  }

  const Request& request_;
  cost_model::JobCosts& costs_;
  spec::ParallelSpec& layout_;
  cost_model::StepParts parts_;
  std::vector<int> layers_;
};

}  // namespace

FewestRecomputed FindFewestRecomputed(const Request& request, cost_model::JobCosts& costs,
                                      spec::ParallelSpec layout, double enough_bytes) {
  Recomputation recomputation(request, costs, layout);
  const int most = recomputation.MostLayersOfAStage();
  if (most < 2 || recomputation.Fits()) return {.fits_without = true, .layers = {}};
  recomputation.SetAll(most - 1);
  const double needed_bytes = recomputation.NeededBytes(enough_bytes);
  if (!recomputation.Fits(needed_bytes)) {
    return {.layers = recomputation.TakeLayers(), .needed_bytes = needed_bytes};
  }
  int too_few = 0;
  int enough = most - 1;
  while (enough - too_few > 1) {
    const int middle = (too_few + enough) / 2;
    recomputation.SetAll(middle);
    (recomputation.Fits() ? enough : too_few) = middle;
  }
  recomputation.SetAll(enough);
  if (request.job.runtime.per_stage_recompute) recomputation.ReduceByStage();
  return {.fits = true, .layers = recomputation.TakeLayers()};
}

}  // namespace tessera::planner
