// Norm, MLP, residual.
#pragma once

#include "engine/layers/dropout.h"
#include "engine/layers/mlp.h"
#include "engine/layers/norm.h"

namespace tessera::engine {

struct MlpStash {
  Buffer input;  // [local_tokens, hidden]: the attention block's result
  NormStash norm;
  MlpTensors mlp;
};

class MlpBlock {
 public:
  MlpBlock(const LayerContext& context, const ParameterStore& store, int layer);

  // Up to the input of the second product: all that the backward pass reads. Reads stash.input.
  void ForwardToActivation(MlpStash& stash) const;
  // The rest: returns stash.input + dropout(mlp(norm(stash.input))), [local_tokens, hidden], in
  // `output`.
  Buffer ForwardFromActivation(const MlpStash& stash, Buffer output) const;
  // `dy`: gradient of the result; becomes the gradient of stash.input.
  void Backward(MlpStash& stash, Buffer& dy) const;

 private:
  Norm norm_;
  Mlp mlp_;
  BranchEnd end_;
};

}  // namespace tessera::engine
