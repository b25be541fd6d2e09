// The two products of an MLP with GELU or SwiGLU between them: column-parallel, then row-parallel.
// Shoeybi et al. 2019, arXiv:1909.08053, Fig. 3a. A dense layer's, or an expert's that every token
// visits, whose result a gate may weight.
#pragma once

#include <optional>
#include <string>

#include "engine/layers/token_gate.h"

namespace tessera::engine {

struct MlpTensors {
  Buffer pre_activation;  // [tokens, ffn], or [tokens, 2 * ffn]: gate, then up
  Buffer activation;      // [tokens, ffn]
  TokenGateStash gate;
};

class Mlp {
 public:
  // `prefix` of the parameters' names, "layers.0.mlp."; `ffn`: width here. A gate, `output_gate`,
  // goes with SwiGLU alone.
  Mlp(const LayerContext& context, const ParameterStore& store, const std::string& prefix,
      int64_t ffn);

  // From the tokens of this rank [local_tokens, hidden] to the input of the second product: all
  // that the backward pass reads.
  void Up(kernels::ConstArray tokens, MlpTensors& tensors) const;
  // The second product, without its bias: [local_tokens, hidden], in `output`.
  Buffer Down(const MlpTensors& tensors, Buffer output) const;
  kernels::ConstArray down_bias() const { return down_bias_.weight; }
  // `dy`: gradient of the result. Returns that of `tokens`, [local_tokens, hidden]. In a pass that
  // puts weight gradients off their operands move there, `tokens` and `dy` among them.
  Buffer Backward(Buffer& tokens, MlpTensors& tensors, Buffer& dy) const;
  // The same in two parts, of which the second has no need of `dy`.
  struct PreActivationGradient {
    Buffer dpre;          // [tokens, first_width]
    Buffer gate_dlogits;  // where there is a gate
  };
  PreActivationGradient DownBackward(MlpTensors& tensors, Buffer& dy) const;
  Buffer UpBackward(Buffer& tokens, PreActivationGradient gradient) const;

 private:
  bool is_gated() const { return context_.model.activation == spec::ActivationKind::kSwiGlu; }
  int64_t first_width() const { return is_gated() ? 2 * ffn_ : ffn_; }

  const LayerContext& context_;
  int64_t ffn_;
  Parameter first_weight_;  // up, or gate and up one after the other: [first_width, hidden]
  Parameter first_bias_;
  Parameter down_weight_;
  Parameter down_bias_;
  std::optional<TokenGate> gate_;
};

}  // namespace tessera::engine
