#include "engine/layers/linear.h"

namespace tessera::engine {
namespace {

kernels::MatMulArgs ForwardArgs(const LinearShape& shape, const float* x, const float* weight,
                                const float* bias, float* y) {
  return {.a = x,
          .b = weight,
          .c = y,
          .m = shape.rows,
          .n = shape.out,
          .k = shape.in,
          .lda = shape.in,
          .ldb = shape.in,
          .ldc = shape.out,
          .layout = base::MatMulLayout::kNT,
          .bias = bias};
}

}  // namespace

void LinearForward(const LayerContext& context, const LinearShape& shape, const float* x,
                   const float* weight, const float* bias, float* y) {
  kernels::MatMulArgs args = ForwardArgs(shape, x, weight, bias, y);
  args.epilogue = bias == nullptr ? base::Epilogue::kNone : base::Epilogue::kBias;
  context.backend.MatMul(args);
}

void LinearGeluForward(const LayerContext& context, const LinearShape& shape, const float* x,
                       const float* weight, const float* bias, float* pre, float* y) {
  kernels::MatMulArgs args = ForwardArgs(shape, x, weight, bias, y);
  args.epilogue = base::Epilogue::kBiasGelu;
  args.aux = pre;
  context.backend.MatMul(args);
}

void LinearDataGradient(const LayerContext& context, const LinearShape& shape, const float* dy,
                        const float* weight, float* dx, const float* pre) {
  kernels::MatMulArgs args{.a = dy,
                           .b = weight,
                           .c = dx,
                           .m = shape.rows,
                           .n = shape.in,
                           .k = shape.out,
                           .lda = shape.out,
                           .ldb = shape.in,
                           .ldc = shape.in,
                           .layout = base::MatMulLayout::kNN};
  if (pre != nullptr) {
    args.epilogue = base::Epilogue::kGeluGrad;
    args.aux = kernels::Array(const_cast<float*>(pre));  // read only by this epilogue
  }
  context.backend.MatMul(args);
}

void LinearWeightGradient(const LayerContext& context, const LinearShape& shape, const float* dy,
                          const float* x, float* dweight) {
  context.backend.MatMul({.a = dy,
                          .b = x,
                          .c = dweight,
                          .m = shape.out,
                          .n = shape.in,
                          .k = shape.rows,
                          .lda = shape.out,
                          .ldb = shape.in,
                          .ldc = shape.in,
                          .layout = base::MatMulLayout::kTN,
                          .accumulate = true});
}

void LinearBiasGradient(const LayerContext& context, const float* dy, int64_t rows, int64_t width,
                        float* dbias) {
  if (dbias == nullptr) return;
  context.backend.BiasGrad(
      {.dy = dy, .dbias = dbias, .num_rows = rows, .width = width, .stride = width});
}

}  // namespace tessera::engine
