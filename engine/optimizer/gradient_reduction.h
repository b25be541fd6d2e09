// Sums the gradients of a step over the ranks that hold parts of them.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "engine/layers/layer_context.h"
#include "engine/layers/parameter_store.h"
#include "engine/optimizer/reduction_check.h"

namespace tessera::engine {

// After Finish, each rank holds the gradients of the whole global batch: in all of the flat buffer
// without sharding, in the ranges that it owns with it.
//
// Without sharded gradients, of every parameter in order: over tp where it is token-wise (sequence
// parallelism), over the holders of the same key/value heads, over first and last stage for tied
// embeddings; then bucket by bucket over the ranks that hold the same parameters: of experts, those
// of the same experts. Which bucket comes when depends on the stage alone, so that ranks that share
// one agree.
//
// With them (spec::ReducesEachMicrobatch) each micro-batch's gradients of a part are scattered and
// added to the own shard once its backward pass is over; what else must be added up, of the shards,
// follows at the end.
//
// With smaller groups that shard, the shards are added up over their replicas at the very end.
class GradientReducer {
 public:
  // All must outlive it. `waits` takes what passes wait. `overlaps`: reductions run behind what is
  // computed meanwhile.
  GradientReducer(const LayerContext& context, const ParameterStore& store, SpanLog& waits,
                  bool overlaps);

  // The step changes no gradient of this layer any more; for the model's last layer, none of the
  // head either. Buckets of which all gradients are final start to be reduced, behind what the rank
  // computes meanwhile. To be called between layers. Optional.
  void OnLayerDone(int layer);

  // Around the backward pass of one micro-batch through a part.
  void BeforeBackward(int part);
  void AfterBackward(int part);

  // The step changes no gradient any more. Reduces what is left and waits for all.
  void Finish();

  // Shows `check`, null for none, what is scattered from now on and what comes of it.
  void set_check(ReductionCheck* check) { check_ = check; }

 private:
  using Handles = std::vector<std::unique_ptr<CommHandle>>;
  // Gradients of a parameter that this rank holds, in the store's.
  struct Piece {
    kernels::Array gradients;
    int64_t num_elements = 0;
  };
  // Gradients of a part on their way.
  struct Scattering {
    const Part* part = nullptr;
    Handles handles;
  };

  bool ReducesAny() const;
  bool IsTied(size_t parameter) const;
  bool IsReady(const spec::FlatBucket& bucket) const;
  Piece PieceOf(size_t parameter) const;
  // Over the groups that share parameters of one model replica.
  void ReduceShared(const std::vector<size_t>& parameters, bool with_tied);
  void ReduceOver(const std::vector<size_t>& parameters, Communicator& group) const;
  void ReducePacked(const std::vector<Piece>& pieces, int64_t total, Communicator& group) const;
  void StartBucket(size_t bucket);
  void ClearGradients(int part);
  // Adds to the own shards what has been scattered of the part in a slot.
  void Settle(Scattering& scattering);
  void ReduceReplicas();

  const LayerContext& context_;
  const ParameterStore& store_;
  SpanLog& waits_;
  const bool overlaps_;
  ReductionCheck* check_ = nullptr;
  std::vector<size_t> bucket_of_;  // by parameter
  // Of the running step.
  std::vector<bool> is_final_;    // by parameter
  std::vector<bool> is_started_;  // by bucket
  Handles under_way_;
  std::array<Scattering, kNumPartSlots> scattering_;
};

}  // namespace tessera::engine
