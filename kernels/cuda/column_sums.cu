#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/types.cuh"
#include "kernels/cuda/vectors.cuh"

namespace tessera::kernels::cuda {
namespace {

// blockIdx.y picks which of the sums.
__global__ void __launch_bounds__(kColumnSumWarps* kWarpSize)
    PartialSumKernel(const float* __restrict__ partial, int64_t num_partials, int64_t width,
                     float* __restrict__ first, float* __restrict__ second) {
  __shared__ float shared[kColumnSumWarps][kWarpSize];
  const int64_t column = static_cast<int64_t>(blockIdx.x) * kWarpSize + threadIdx.x;
  const int64_t stride = gridDim.y * width;
  float sum = 0;
  if (column < width) {
    const float* const values = partial + blockIdx.y * width + column;
#pragma unroll 4
    for (int64_t i = threadIdx.y; i < num_partials; i += kColumnSumWarps) {
      sum += values[i * stride];
    }
  }
  shared[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || column >= width) return;
#pragma unroll
  for (int warp = 1; warp < kColumnSumWarps; ++warp) sum += shared[warp][threadIdx.x];
  float* const result = blockIdx.y == 0 ? first : second;
  result[column] += sum;
}

template <typename T>
struct BiasGradOp {
  static constexpr int kCount = 1;
  const T* __restrict__ dy;
  int64_t stride;
  int64_t first_column = 0;

  template <int kSize>
  __device__ void Add(int64_t row, int64_t column, float (&sums)[1][kSize]) const {
    float values[kSize];
    Load<kSize>(dy + row * stride + first_column + column, values);
#pragma unroll
    for (int j = 0; j < kSize; ++j) sums[0][j] += values[j];
  }
};

}  // namespace

void AddPartialSums(const LaunchContext& context, const float* partial, int64_t num_partials,
                    int64_t width, float* first, float* second) {
  const auto num_tiles = static_cast<unsigned>(base::CeilDiv(width, int64_t{kWarpSize}));
  Launch("sum of partial sums", PartialSumKernel,
         {dim3(num_tiles, second == nullptr ? 1 : 2), dim3(kWarpSize, kColumnSumWarps)},
         context.stream, partial, num_partials, width, first, second);
}

void BiasGrad(const LaunchContext& context, const BiasGradArgs& args) {
  WithFloatType(args.dy.dtype, [&](auto tag) {
    using T = typename decltype(tag)::Type;
    constexpr int kSize = kVectorSize<T>;
    const BiasGradOp<T> op{args.dy.As<T>(), args.stride};
    auto* const dbias = args.dbias.As<float>();
    if (CanVectorize(kSize, {args.dy.data}, {args.stride, args.width})) {
      LaunchColumnSums<kSize>(context, "bias gradient", args.num_rows, args.width, op, dbias,
                              nullptr);
    } else {
      LaunchColumnSums<1>(context, "bias gradient", args.num_rows, args.width, op, dbias, nullptr);
    }
  });
}

}  // namespace tessera::kernels::cuda
