#include "engine/layers/linear.h"

#include <utility>

namespace tessera::engine {
namespace {

kernels::MatMulArgs ForwardArgs(const LinearShape& shape, kernels::ConstArray x,
                                kernels::ConstArray weight, kernels::ConstArray bias,
                                kernels::Array y) {
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

void LinearForward(const LayerContext& context, const LinearShape& shape, kernels::ConstArray x,
                   kernels::ConstArray weight, kernels::ConstArray bias, kernels::Array y) {
  kernels::MatMulArgs args = ForwardArgs(shape, x, weight, bias, y);
  args.epilogue = !bias ? base::Epilogue::kNone : base::Epilogue::kBias;
  context.backend.MatMul(args);
}

void LinearGeluForward(const LayerContext& context, const LinearShape& shape, kernels::ConstArray x,
                       kernels::ConstArray weight, kernels::ConstArray bias, kernels::Array pre,
                       kernels::Array y) {
  kernels::MatMulArgs args = ForwardArgs(shape, x, weight, bias, y);
  args.epilogue = base::Epilogue::kBiasGelu;
  args.aux = pre;
  context.backend.MatMul(args);
}

void LinearDataGradient(const LayerContext& context, const LinearShape& shape,
                        kernels::ConstArray dy, kernels::ConstArray weight, kernels::Array dx,
                        kernels::ConstArray pre) {
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
  if (pre) {
    args.epilogue = base::Epilogue::kGeluGrad;
    args.aux = {const_cast<void*>(pre.data), pre.dtype};  // read only by this epilogue
  }
  context.backend.MatMul(args);
}

void LinearWeightGradient(const LayerContext& context, const LinearShape& shape, Buffer& dy,
                          Buffer& x, kernels::Array dweight) {
  const kernels::MatMulArgs args{.a = dy.array(),
                                 .b = x.array(),
                                 .c = dweight,
                                 .m = shape.out,
                                 .n = shape.in,
                                 .k = shape.rows,
                                 .lda = shape.out,
                                 .ldb = shape.in,
                                 .ldc = shape.in,
                                 .layout = base::MatMulLayout::kTN,
                                 .accumulate = true};
  WeightProducts* const put_off = context.part.put_off;
  if (put_off == nullptr) {
    context.backend.MatMul(args);
    return;
  }
  put_off->Add([&backend = context.backend, args] { backend.MatMul(args); });
  put_off->Keep(std::move(dy));
  put_off->Keep(std::move(x));
}

void LinearBiasGradient(const LayerContext& context, kernels::ConstArray dy, int64_t rows,
                        int64_t width, kernels::Array dbias) {
  if (!dbias) return;
  context.backend.BiasGrad(
      {.dy = dy, .dbias = dbias, .num_rows = rows, .width = width, .stride = width});
}

}  // namespace tessera::engine
