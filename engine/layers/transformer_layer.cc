#include "engine/layers/transformer_layer.h"

#include <utility>

namespace tessera::engine {

Buffer TransformerLayer::Forward(Buffer x, LayerStash& stash) const {
  stash.input = std::move(x);
  stash.input.Retag(MemoryKind::kActivations);
  // The next layer's input, taken first: what this one keeps for no longer than the pass lies
  // behind what stays.
  Buffer y = context_.LocalTokens(Lifetime::kStep);
  ForwardInner(stash);
  y = mlp_.ForwardFromActivation(stash.mlp, std::move(y));
  if (is_recomputed_) {
    stash.attention = {};
    stash.mlp = {};
  }
  return y;
}

// All that the backward pass reads.
void TransformerLayer::ForwardInner(LayerStash& stash) const {
  stash.mlp.input = attention_.Forward(stash.input.array(), stash.attention);
  stash.mlp.input.Retag(MemoryKind::kActivations);
  mlp_.ForwardToActivation(stash.mlp);
}

void TransformerLayer::Backward(LayerStash& stash, Buffer& dy) const {
  if (is_recomputed_) ForwardInner(stash);
  mlp_.Backward(stash.mlp, dy);
  attention_.Backward(stash.input.array(), stash.attention, dy);
  stash = {};
}

}  // namespace tessera::engine
