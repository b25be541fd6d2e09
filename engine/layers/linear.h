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

// y[rows, out] = x[rows, in] W^T (+ bias[out] when not null).
void LinearForward(const LayerContext& context, const LinearShape& shape, const float* x,
                   const float* weight, const float* bias, float* y);
// pre[rows, out] = x W^T + bias; y = gelu(pre). bias may be null.
void LinearGeluForward(const LayerContext& context, const LinearShape& shape, const float* x,
                       const float* weight, const float* bias, float* pre, float* y);
// dx[rows, in] = dy[rows, out] W; times gelu'(pre[rows, in]) when `pre` is not null.
void LinearDataGradient(const LayerContext& context, const LinearShape& shape, const float* dy,
                        const float* weight, float* dx, const float* pre = nullptr);
// dW[out, in] += dy[rows, out]^T x[rows, in].
void LinearWeightGradient(const LayerContext& context, const LinearShape& shape, const float* dy,
                          const float* x, float* dweight);
// dbias[out] += sum over rows of dy; nothing when dbias is null.
void LinearBiasGradient(const LayerContext& context, const float* dy, int64_t rows, int64_t width,
                        float* dbias);

}  // namespace tessera::engine
