#pragma once

#include <optional>

#include "engine/layers/attention_block.h"
#include "engine/layers/mlp_block.h"
#include "engine/layers/moe_block.h"

namespace tessera::engine {

// What one micro-batch keeps in one layer; under full recomputation the input alone.
struct LayerStash {
  Buffer input;  // [local_tokens, hidden]
  AttentionStash attention;
  MlpStash mlp;  // of a dense layer
  MoeStash moe;  // of one with experts
};

// A transformer block: attention, and an MLP or experts, with residuals, and its recomputation.
class TransformerLayer {
 public:
  // `is_recomputed`: keeps its input alone for the backward pass.
  TransformerLayer(const LayerContext& context, const ParameterStore& store, int layer,
                   bool is_recomputed)
      : context_(context), is_recomputed_(is_recomputed), attention_(context, store, layer) {
    if (spec::LayerFormOf(context.model, layer).has_experts) {
      moe_.emplace(context, store, layer);
    } else {
      mlp_.emplace(context, store, layer);
    }
  }

  // Takes x [local_tokens, hidden], returns the layer's output of that shape.
  Buffer Forward(Buffer x, LayerStash& stash) const;
  // `dy`: gradient of the output; becomes the gradient of the input. Empties the stash.
  void Backward(LayerStash& stash, Buffer& dy) const;

 private:
  void ForwardInner(LayerStash& stash) const;

  const LayerContext& context_;
  bool is_recomputed_;
  AttentionBlock attention_;
  std::optional<MlpBlock> mlp_;  // either one or the other
  std::optional<MoeBlock> moe_;
};

}  // namespace tessera::engine
