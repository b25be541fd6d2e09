// Masks of the running pass, the same in every layout: their draws are keyed by seed, step and
// place in the model, and count samples of the global batch, tokens of a whole sequence, heads of
// all ranks and elements.
#pragma once

#include <string>
#include <utility>

#include "cost_model/spec/context_tokens.h"
#include "engine/layers/layer_context.h"

namespace tessera::engine {

// Of rows of hidden states, [local_tokens, hidden], at a place such as "layers.3.mlp.output".
kernels::RowDropout DropoutOfRows(const LayerContext& context, double probability,
                                  const std::string& place);

// Of the probabilities of this rank's heads, of a part of its queries with keys at these positions
// of their sequence.
kernels::AttentionDropout DropoutOfAttention(const LayerContext& context,
                                             const spec::AttentionPart& part,
                                             const base::TokenPositions& keys,
                                             const std::string& place);

// The sum at the end of a layer's branch, of which dropout drops a part, and where the gradient
// enters the branch.
class BranchEnd {
 public:
  BranchEnd(const LayerContext& context, std::string place)
      : context_(context), place_(std::move(place)) {}

  // y = residual + dropout(y + bias), [local_tokens, hidden]; bias may be absent.
  void AddResidual(kernels::ConstArray residual, kernels::ConstArray bias, kernels::Array y) const;
  // The branch's gradient, of `dy`, that of the sum; empty where both are the same.
  Buffer Gradient(kernels::ConstArray dy) const;

 private:
  kernels::RowDropout Dropout() const {
    return DropoutOfRows(context_, context_.dropout.hidden(), place_);
  }

  const LayerContext& context_;
  std::string place_;
};

}  // namespace tessera::engine
