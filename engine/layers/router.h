// Chooses the experts of each token: a product with the hidden state, a softmax over all experts,
// the largest of its values.
#pragma once

#include <vector>

#include "engine/layers/layer_context.h"
#include "engine/layers/parameter_store.h"

namespace tessera::engine {

struct RouterStash {
  Buffer probabilities;  // fp32 [local_tokens, experts]
  Buffer log_sum_exp;    // fp32 [local_tokens]: of the logits
  Buffer chosen;         // int32 [local_tokens, experts_per_token]
  Buffer weights;        // fp32 [local_tokens, experts_per_token]
  // With a loss that balances the load: how often all tokens of each sequence choose each expert,
  // fp32 [batch, experts].
  Buffer counts;
};

class Router {
 public:
  Router(const LayerContext& context, const ParameterStore& store, int layer);

  // `tokens`: [local_tokens, hidden].
  void Forward(kernels::ConstArray tokens, RouterStash& stash) const;
  // `dweights`: fp32 [local_tokens, experts_per_token]. Returns the gradient of the tokens
  // [local_tokens, hidden]. The losses that depend on the router alone join in here, and their
  // values go to the context's sums. Of a pass that puts weight gradients off, `tokens` moves
  // there.
  Buffer Backward(Buffer& tokens, const RouterStash& stash, kernels::ConstArray dweights) const;

 private:
  void CountChoices(RouterStash& stash) const;
  bool balances() const { return moe_.auxiliary_loss_coefficient > 0; }

  const LayerContext& context_;
  const spec::MoeSpec& moe_;
  Parameter weight_;
  std::vector<float> forced_logits_;  // [local_tokens, experts], or empty: not forced
};

}  // namespace tessera::engine
