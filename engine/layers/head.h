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

  // Adds the losses of the micro-batch's tokens against stash.labels to the context's loss target:
  // the same on every tensor-parallel rank.
  void Forward(Buffer x, HeadStash& stash) const;
  // Gradient of x [local_tokens, hidden]. Empties the stash.
  Buffer Backward(HeadStash& stash) const;

 private:
  void Loss(HeadStash& stash) const;

  const LayerContext& context_;
  Norm norm_;
  Parameter weight_;  // [vocab, hidden]
};

}  // namespace tessera::engine
