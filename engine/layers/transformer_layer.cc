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
  y = moe_ ? moe_->ForwardFromActivation(stash.moe, std::move(y))
           : mlp_->ForwardFromActivation(stash.mlp, std::move(y));
  if (is_recomputed_) {
    stash.attention = {};
    stash.mlp = {};
    stash.moe.DropTensors();
  }
  return y;
}

// All that the backward pass reads.
void TransformerLayer::ForwardInner(LayerStash& stash) const {
  Buffer& input = moe_ ? stash.moe.input : stash.mlp.input;
  input = attention_.Forward(stash.input.array(), stash.attention);
  input.Retag(MemoryKind::kActivations);
  if (moe_) {
    moe_->ForwardToActivation(stash.moe);
  } else {
    mlp_->ForwardToActivation(stash.mlp);
  }
}

void TransformerLayer::Backward(LayerStash& stash, Buffer& dy) const {
  if (is_recomputed_) ForwardInner(stash);
  if (moe_) {
    moe_->Backward(stash.moe, dy);
  } else {
    mlp_->Backward(stash.mlp, dy);
  }
  attention_.Backward(stash.input.array(), stash.attention, dy);
  stash = {};
}

}  // namespace tessera::engine
