// Final norm, vocabulary-parallel output projection and softmax cross-entropy.
// Shoeybi et al. 2019, arXiv:1909.08053, section 3: the loss is computed without gathering logits.
#pragma once

#include "engine/layers/norm.h"

namespace tessera::engine {

struct HeadStash {
  Buffer labels;  // int32 [tokens]
  Buffer input;   // [local_tokens, hidden]
  NormStash norm;
  Buffer dlogits;  // [tokens, vocab]: the logits' gradient
};

class Head {
 public:
  Head(const LayerContext& context, const ParameterStore& store);

  // Sum over the micro-batch's tokens of the loss against stash.labels; the same on every
  // tensor-parallel rank. Gradients are of `grad_scale` times that sum.
  double Forward(Buffer x, float grad_scale, HeadStash& stash) const;
  // Gradient of x [local_tokens, hidden]. Empties the stash.
  Buffer Backward(HeadStash& stash) const;

 private:
  double Loss(float grad_scale, HeadStash& stash) const;

  const LayerContext& context_;
  Norm norm_;
  Parameter weight_;  // [vocab, hidden]
};

}  // namespace tessera::engine
