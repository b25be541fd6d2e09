// The backward pass of a column-parallel product: y = x W^T of the tokens of all tensor-parallel
// ranks, W cut by rows. Shoeybi et al. 2019, arXiv:1909.08053, section 3.
#pragma once

#include <functional>

#include "engine/layers/linear.h"

namespace tessera::engine {

// Another product of the same x, whose gradients join in.
struct SharedInput {
  std::function<void(kernels::Array dx)> add_data_gradient;        // [tokens, in], before the sum
  std::function<void(kernels::ConstArray x)> add_weight_gradient;  // x: all tokens
};

// Adds dy^T x to the weight's gradient and returns the gradient of x [local_tokens, in], summed
// over the ranks. `shape`: of the product, all tokens; `x`: this rank's tokens [local_tokens, in].
// With overlap_tp_comm x is gathered behind the input gradient's product, and the sum goes on
// behind the weight gradient's (Korthikanti et al. 2022, arXiv:2205.05198, section 4.2.2): the same
// sums in the same order. Where weight gradients are put off, dy and x (or what was gathered) go
// there.
Buffer ColumnParallelBackward(const LayerContext& context, const LinearShape& shape, Buffer& dy,
                              Buffer& x, const Parameter& weight, const SharedInput& shared = {});

}  // namespace tessera::engine
