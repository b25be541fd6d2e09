// A weight for each token: the sigmoid of a product with its hidden state. Computed as a router of
// two experts would, of which the second has a logit of 0: softmax(g, 0) is (sigmoid(g), ...).
#pragma once

#include "engine/layers/layer_context.h"
#include "engine/layers/parameter_store.h"

namespace tessera::engine {

struct TokenGateStash {
  Buffer probabilities;  // fp32 [tokens, 2]
  Buffer log_sum_exp;    // fp32 [tokens]
  Buffer weights;        // fp32 [tokens]
};

class TokenGate {
 public:
  // `weight`: [1, hidden], the same on all tensor-parallel ranks.
  TokenGate(const LayerContext& context, const Parameter& weight)
      : context_(context), weight_(weight) {}

  // `tokens`: all of them, [tokens, hidden].
  void Forward(kernels::ConstArray tokens, TokenGateStash& stash) const;
  // Gradient of the logits [tokens, 2], whose second column is of no use. `dweights`: fp32
  // [tokens]; of tensor-parallel ranks each has a part of the sum.
  Buffer Backward(const TokenGateStash& stash, kernels::ConstArray dweights) const;
  // dtokens[tokens, hidden] += what comes through the gate.
  void AddDataGradient(const Buffer& dlogits, kernels::Array dtokens) const;
  void WeightGradient(const Buffer& dlogits, kernels::ConstArray tokens) const;

 private:
  const LayerContext& context_;
  Parameter weight_;
};

}  // namespace tessera::engine
