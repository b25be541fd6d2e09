// The three products of a linear layer y = x W^T + b with the weight stored [out, in].
#pragma once

#include "engine/layers/layer_context.h"
#include "engine/layers/parameter_store.h"

namespace tessera::engine {

struct LinearShape {
  int64_t rows = 0;
  int64_t out = 0;
  int64_t in = 0;
};

// y[rows, out] = x[rows, in] W^T (+ bias[out] where present).
void LinearForward(const LayerContext& context, const LinearShape& shape, kernels::ConstArray x,
                   kernels::ConstArray weight, kernels::ConstArray bias, kernels::Array y);
// pre[rows, out] = x W^T + bias; y = gelu(pre). bias may be absent.
void LinearGeluForward(const LayerContext& context, const LinearShape& shape, kernels::ConstArray x,
                       kernels::ConstArray weight, kernels::ConstArray bias, kernels::Array pre,
                       kernels::Array y);
// dx[rows, in] = dy[rows, out] W; times gelu'(pre[rows, in]) where `pre` is present.
void LinearDataGradient(const LayerContext& context, const LinearShape& shape,
                        kernels::ConstArray dy, kernels::ConstArray weight, kernels::Array dx,
                        kernels::ConstArray pre = {});
// dW[out, in] += dy[rows, out]^T x[rows, in]. In a pass that puts these products off the buffers of
// dy and x move there and are empty afterwards; their memory stays as it is.
void LinearWeightGradient(const LayerContext& context, const LinearShape& shape, Buffer& dy,
                          Buffer& x, kernels::Array dweight);
// dbias[out] += sum over rows of dy; nothing where dbias is absent.
void LinearBiasGradient(const LayerContext& context, kernels::ConstArray dy, int64_t rows,
                        int64_t width, kernels::Array dbias);

}  // namespace tessera::engine
