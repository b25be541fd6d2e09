// Norm, column-parallel q/k/v, attention over this rank's heads, row-parallel output, residual.
// Shoeybi et al. 2019, arXiv:1909.08053, Fig. 3b.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "engine/layers/attention_core.h"
#include "engine/layers/dropout.h"
#include "engine/layers/norm.h"

namespace tessera::engine {

struct AttentionStash {
  NormStash norm;
  CoreStash core;
};

class AttentionBlock {
 public:
  AttentionBlock(const LayerContext& context, const ParameterStore& store, int layer);

  // Returns x + dropout(attention(norm(x))), [local_tokens, hidden].
  Buffer Forward(kernels::ConstArray x, AttentionStash& stash) const;
  // `dy`: gradient of the result; becomes the gradient of x.
  void Backward(kernels::ConstArray x, AttentionStash& stash, Buffer& dy) const;

 private:
  Buffer OutputBackward(AttentionStash& stash, Buffer& dy) const;
  Buffer CoreBackward(AttentionStash& stash, Buffer doutput) const;
  Buffer QkvBackward(AttentionStash& stash, Buffer& dqkv) const;
  void Rope(kernels::Array qkv, bool inverse) const;

  const LayerContext& context_;
  std::unique_ptr<AttentionCore> core_;
  BranchEnd end_;
  Norm norm_;
  Parameter qkv_weight_;  // q, k, v one after the other: [qkv_width, hidden]
  Parameter qkv_bias_;    // [qkv_width], null when the model has none
  Parameter output_weight_;
  Parameter output_bias_;
  std::vector<double> inverse_frequency_;  // [head_dim / 2], empty without rotary positions
};

}  // namespace tessera::engine
