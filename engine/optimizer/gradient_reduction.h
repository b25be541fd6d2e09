// Sums the gradients of a step over the ranks that hold parts of them.
#pragma once

#include <memory>
#include <vector>

#include "engine/layers/layer_context.h"
#include "engine/layers/parameter_store.h"

namespace tessera::engine {

// After Finish, each rank holds the gradients of the whole global batch: in all of the flat buffer
// without sharding, in its own part of each bucket with the distributed optimizer (zero stage 1).
// Of every parameter in order: over tp where it is token-wise (sequence parallelism), over the
// holders of the same key/value heads, over first and last stage for tied embeddings; then bucket
// by bucket over the ranks that hold the same parameters: of experts, those of the same experts.
// Which bucket comes when depends on the stage alone, so that ranks
// that share one agree.
class GradientReducer {
 public:
  // `context` and `store` must outlive it.
  GradientReducer(const LayerContext& context, const ParameterStore& store);

  // The step changes no gradient of this layer any more; for the model's last layer, none of the
  // head either. Buckets of which all gradients are final start to be reduced, behind what the rank
  // computes meanwhile. To be called between layers. Optional.
  void OnLayerDone(int layer);

  // The step changes no gradient any more. Reduces what is left and waits for all.
  void Finish();

 private:
  bool ReducesAny() const;
  bool IsTied(size_t parameter) const;
  bool IsReady(const spec::FlatBucket& bucket) const;
  // Over the groups that share parameters of one model replica.
  void ReduceShared(const std::vector<size_t>& parameters, bool with_tied);
  void StartBucket(const spec::FlatBucket& bucket);

  const LayerContext& context_;
  const ParameterStore& store_;
  // Of the running step.
  std::vector<bool> is_final_;    // by parameter
  std::vector<bool> is_started_;  // by bucket
  std::vector<std::unique_ptr<CommHandle>> under_way_;
};

// Gives every holder of the same parameters the weights that the others have updated (zero stage
// 1).
void GatherWeights(const LayerContext& context, const ParameterStore& store);

}  // namespace tessera::engine
