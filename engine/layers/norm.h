// LayerNorm or RMSNorm over this rank's tokens, as the model says.
#pragma once

#include <string>

#include "engine/layers/layer_context.h"
#include "engine/layers/parameter_store.h"

namespace tessera::engine {

// What a norm keeps for its backward pass, beside its input.
struct NormStash {
  Buffer statistics;  // [local_tokens] reciprocal deviations, then means (LayerNorm)
  Buffer output;      // [local_tokens, hidden]
};

class Norm {
 public:
  // `name`: of the parameters, "layers.0.attention.norm".
  Norm(const LayerContext& context, const ParameterStore& store, const std::string& name);

  void Forward(kernels::ConstArray x, NormStash& stash) const;
  // Gradient of x [local_tokens, hidden], plus `residual_grad` where present, in place of `dy`.
  void Backward(kernels::ConstArray x, const NormStash& stash, kernels::ConstArray residual_grad,
                kernels::Array dy) const;

 private:
  const LayerContext& context_;
  Parameter gamma_;
  Parameter beta_;
};

}  // namespace tessera::engine
