// Tokens on their way to the experts and back.
#include "cost_model/base/math.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/vectors.cuh"

namespace tessera::kernels::cuda {
namespace {

constexpr int kRowsPerBlock = 8;  // a warp a row

template <typename T>
struct PermuteParams {
  const T* x;
  const int32_t* source_row;
  const float* scale;
  T* out;
  int64_t num_rows, width;
};

template <typename T, int kSize>
__global__ void __launch_bounds__(kWarpSize* kRowsPerBlock) PermuteKernel(PermuteParams<T> params) {
  const int64_t row = int64_t{blockIdx.x} * kRowsPerBlock + threadIdx.y;
  if (row >= params.num_rows) return;
  const int64_t source = params.source_row[row];
  const float factor = params.scale == nullptr ? 1.0F : params.scale[row];
  const T* const from = params.x + source * params.width;
  T* const to = params.out + row * params.width;
  for (int64_t at = int64_t{threadIdx.x} * kSize; at < params.width; at += kWarpSize * kSize) {
    float values[kSize] = {};
    if (source >= 0) {
      Load<kSize>(from + at, values);
#pragma unroll
      for (float& value : values) value *= factor;
    }
    Store<kSize>(values, to + at);
  }
}

template <typename T>
struct UnpermuteParams {
  const T* x;
  const int32_t* routed_row;
  const float* weight;
  T* out;
  int64_t num_tokens, width, copies;
};

template <typename T, int kSize>
__global__ void __launch_bounds__(kWarpSize* kRowsPerBlock)
    UnpermuteKernel(const UnpermuteParams<T> params) {
  const int64_t token = int64_t{blockIdx.x} * kRowsPerBlock + threadIdx.y;
  if (token >= params.num_tokens) return;
  const int64_t first = token * params.copies;
  for (int64_t at = int64_t{threadIdx.x} * kSize; at < params.width; at += kWarpSize * kSize) {
    float sums[kSize] = {};
    for (int64_t copy = first; copy < first + params.copies; ++copy) {
      const int64_t row = params.routed_row[copy];
      if (row < 0) continue;
      const float factor = params.weight == nullptr ? 1.0F : params.weight[copy];
      float values[kSize];
      Load<kSize>(params.x + row * params.width + at, values);
#pragma unroll
      for (int i = 0; i < kSize; ++i) sums[i] += values[i] * factor;
    }
    Store<kSize>(sums, params.out + token * params.width + at);
  }
}

LaunchShape RowShape(int64_t num_rows) {
  return {dim3(static_cast<unsigned>(base::CeilDiv(num_rows, kRowsPerBlock))),
          dim3(kWarpSize, kRowsPerBlock)};
}

}  // namespace

void TokenPermute(const LaunchContext& context, const TokenPermuteArgs& args) {
  WithFloatType(args.x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const PermuteParams<T> params{args.x.As<T>(),         args.source_row.As<int32_t>(),
                                  args.scale.As<float>(), args.out.As<T>(),
                                  args.num_rows,          args.width};
    auto* const kernel = CanVectorize(kVectorSize<T>, {params.x, params.out}, {args.width})
                             ? PermuteKernel<T, kVectorSize<T>>
                             : PermuteKernel<T, 1>;
    Launch("TokenPermute", kernel, RowShape(args.num_rows), context.stream, params);
  });
}

void TokenUnpermute(const LaunchContext& context, const TokenUnpermuteArgs& args) {
  WithFloatType(args.x.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    const UnpermuteParams<T> params{args.x.As<T>(),
                                    args.routed_row.As<int32_t>(),
                                    args.weight.As<float>(),
                                    args.out.As<T>(),
                                    args.num_tokens,
                                    args.width,
                                    args.copies};
    auto* const kernel = CanVectorize(kVectorSize<T>, {params.x, params.out}, {args.width})
                             ? UnpermuteKernel<T, kVectorSize<T>>
                             : UnpermuteKernel<T, 1>;
    Launch("TokenUnpermute", kernel, RowShape(args.num_tokens), context.stream, params);
  });
}

}  // namespace tessera::kernels::cuda
