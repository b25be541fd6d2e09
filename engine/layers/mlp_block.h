// Norm, column-parallel first product, GELU or SwiGLU, row-parallel second product, residual.
// Shoeybi et al. 2019, arXiv:1909.08053, Fig. 3a.
#pragma once

#include "engine/layers/norm.h"

namespace tessera::engine {

struct MlpStash {
  Buffer input;  // [local_tokens, hidden]: the attention block's result
  NormStash norm;
  Buffer pre_activation;  // [tokens, ffn], or [tokens, 2 * ffn]: gate, then up
  Buffer activation;      // [tokens, ffn]
};

class MlpBlock {
 public:
  MlpBlock(const LayerContext& context, const ParameterStore& store, int layer);

  // Up to the input of the second product: all that the backward pass reads. Reads stash.input.
  void ForwardToActivation(MlpStash& stash) const;
  // The rest: returns stash.input + mlp(norm(stash.input)), [local_tokens, hidden], in `output`.
  Buffer ForwardFromActivation(const MlpStash& stash, Buffer output) const;
  // `dy`: gradient of the result; becomes the gradient of stash.input.
  void Backward(MlpStash& stash, Buffer& dy) const;

 private:
  Buffer DownBackward(MlpStash& stash, Buffer& dy) const;
  Buffer FirstBackward(MlpStash& stash, Buffer& dpre) const;
  bool is_gated() const { return context_.model.activation == spec::ActivationKind::kSwiGlu; }
  int64_t first_width() const { return is_gated() ? 2 * context_.shape.ffn : context_.shape.ffn; }

  const LayerContext& context_;
  Norm norm_;
  Parameter first_weight_;  // up, or gate and up one after the other: [first_width, hidden]
  Parameter first_bias_;
  Parameter down_weight_;
  Parameter down_bias_;
};

}  // namespace tessera::engine
