#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/masks.cuh"
#include "kernels/cuda/types.cuh"

namespace tessera::kernels::cuda {
namespace {

template <typename T>
struct DropoutOp {
  const T* x;  // y may be the same
  T* y;
  int64_t width;
  RowDropoutRule dropout;

  template <int kSize>
  __device__ void Run(int64_t row, int64_t column) const {
    float values[kSize];
    Load<kSize>(x + row * width + column, values);
    dropout.Apply(row, column, values);
    Store<kSize>(values, y + row * width + column);
  }
};

}  // namespace

void Dropout(const LaunchContext& context, const DropoutArgs& args) {
  WithFloatType(args.x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    constexpr int kSize = kVectorSize<T>;
    LaunchRows<kSize>(context, "dropout", args.num_rows, args.width,
                      CanVectorize(kSize, {args.x.data, args.y.data}, {args.width}),
                      DropoutOp<T>{.x = args.x.As<T>(),
                                   .y = args.y.As<T>(),
                                   .width = args.width,
                                   .dropout = RowDropoutRuleOf(args.dropout)});
  });
}

}  // namespace tessera::kernels::cuda
