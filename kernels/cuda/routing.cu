// Tokens on their way to the experts and back.
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/types.cuh"

namespace tessera::kernels::cuda {
namespace {

template <typename T>
struct PermuteOp {
  const T* __restrict__ x;
  const int32_t* __restrict__ source_row;
  const float* __restrict__ scale;
  T* __restrict__ out;
  int64_t width;

  template <int kSize>
  __device__ void Run(int64_t row, int64_t column) const {
    const int64_t source = source_row[row];
    float values[kSize] = {};
    if (source >= 0) {
      const float factor = scale == nullptr ? 1.0F : scale[row];
      Load<kSize>(x + source * width + column, values);
#pragma unroll
      for (float& value : values) value *= factor;
    }
    Store<kSize>(values, out + row * width + column);
  }
};

template <typename T>
struct UnpermuteOp {
  const T* __restrict__ x;
  const int32_t* __restrict__ routed_row;
  const float* __restrict__ weight;
  T* __restrict__ out;
  int64_t width, copies;

  template <int kSize>
  __device__ void Run(int64_t token, int64_t column) const {
    float sums[kSize] = {};
    for (int64_t copy = token * copies; copy < (token + 1) * copies; ++copy) {
      const int64_t row = routed_row[copy];
      if (row < 0) continue;
      const float factor = weight == nullptr ? 1.0F : weight[copy];
      float values[kSize];
      Load<kSize>(x + row * width + column, values);
#pragma unroll
      for (int i = 0; i < kSize; ++i) sums[i] += values[i] * factor;
    }
    Store<kSize>(sums, out + token * width + column);
  }
};

}  // namespace

void TokenPermute(const LaunchContext& context, const TokenPermuteArgs& args) {
  WithFloatType(args.out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    constexpr int kSize = kVectorSize<T>;
    LaunchRows<kSize>(context, "token permute", args.num_rows, args.width,
                      CanVectorize(kSize, {args.x.data, args.out.data}, {args.width}),
                      PermuteOp<T>{args.x.As<T>(), args.source_row.As<int32_t>(),
                                   args.scale.As<float>(), args.out.As<T>(), args.width});
  });
}

void TokenUnpermute(const LaunchContext& context, const TokenUnpermuteArgs& args) {
  WithFloatType(args.out.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    constexpr int kSize = kVectorSize<T>;
    LaunchRows<kSize>(
        context, "token unpermute", args.num_tokens, args.width,
        CanVectorize(kSize, {args.x.data, args.out.data}, {args.width}),
        UnpermuteOp<T>{args.x.As<T>(), args.routed_row.As<int32_t>(), args.weight.As<float>(),
                       args.out.As<T>(), args.width, args.copies});
  });
}

}  // namespace tessera::kernels::cuda
