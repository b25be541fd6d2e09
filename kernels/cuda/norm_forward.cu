// LayerNorm and RMSNorm, forward.
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/norm_rows.cuh"
#include "kernels/cuda/types.cuh"

namespace tessera::kernels::cuda {
namespace {

constexpr int kElementsPerThread = 16;
constexpr int kMaxThreads = 1024;

template <typename T>
struct ForwardParams {
  const T* __restrict__ x;
  const T* __restrict__ gamma;
  const T* __restrict__ beta;
  T* __restrict__ y;
  float* __restrict__ mean;
  float* __restrict__ rstd;
  int64_t num_rows, width;
  float epsilon;
};

using Reducer = GroupReducer<float, 1>;

__device__ __forceinline__ float GroupMean(Reducer& reducer, float sum, int64_t width) {
  float sums[1] = {sum};
  reducer.Reduce(sums, SumOp(), 0.0F);
  return sums[0] / static_cast<float>(width);
}

template <bool kCenters, typename T>
__device__ __forceinline__ void StoreStatistics(const ForwardParams<T>& p, int64_t row, float mean,
                                                float rstd) {
  if (threadIdx.x != 0) return;
  if constexpr (kCenters) p.mean[row] = mean;
  p.rstd[row] = rstd;
}

// kSize values of a row, normalised, into y.
template <bool kCenters, int kSize, typename T>
__device__ __forceinline__ void StoreNormalized(const ForwardParams<T>& p, int64_t row,
                                                int64_t column, float mean, float rstd,
                                                float (&values)[kSize]) {
  float gamma[kSize];
  Load<kSize>(p.gamma + column, gamma);
#pragma unroll
  for (int j = 0; j < kSize; ++j) {
    values[j] = (kCenters ? values[j] - mean : values[j]) * rstd * gamma[j];
  }
  if constexpr (kCenters) {
    float beta[kSize];
    Load<kSize>(p.beta + column, beta);
#pragma unroll
    for (int j = 0; j < kSize; ++j) values[j] += beta[j];
  }
  Store<kSize>(values, p.y + row * p.width + column);
}

// kCenters: LayerNorm; else RMSNorm. A row is read once and lies in the registers of its group.
// All groups of a block make the same number of turns, for they meet at barriers.
template <bool kCenters, typename T>
__global__ void __launch_bounds__(kMaxThreads) NormForwardKernel(const ForwardParams<T> p) {
  constexpr int kSize = kVectorSize<T>;
  constexpr int kPacks = kElementsPerThread / kSize;
  using Part = RowPart<T, kPacks>;
  __shared__ float shared[Reducer::kSharedValues];
  Reducer reducer(shared);
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.y;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.y; first < p.num_rows;
       first += step) {
    const int64_t row = first + threadIdx.y;
    const int64_t width = row < p.num_rows ? p.width : 0;
    Part x;
    x.LoadRow(p.x + row * p.width, width);
    float values[kPacks][kSize];
    float sum = 0;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      Unpack(x.packs[i], values[i]);
#pragma unroll
      for (int j = 0; j < kSize; ++j) sum += values[i][j];
    }
    const float mean = kCenters ? GroupMean(reducer, sum, p.width) : 0.0F;
    float squares = 0;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      if (Part::Column(i) >= width) continue;
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        const float distance = values[i][j] - mean;
        squares += distance * distance;
      }
    }
    const float rstd = rsqrtf(GroupMean(reducer, squares, p.width) + p.epsilon);
    if (width > 0) StoreStatistics<kCenters>(p, row, mean, rstd);
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      if (Part::Column(i) < width) {
        StoreNormalized<kCenters, kSize>(p, row, Part::Column(i), mean, rstd, values[i]);
      }
    }
  }
}

// The same for rows of any width, which are read again for each step.
template <bool kCenters, int kSize, typename T>
__global__ void __launch_bounds__(kMaxThreads) LongNormForwardKernel(const ForwardParams<T> p) {
  __shared__ float shared[Reducer::kSharedValues];
  Reducer reducer(shared);
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.y;
  const int64_t begin = static_cast<int64_t>(threadIdx.x) * kSize;
  const int64_t stride = static_cast<int64_t>(blockDim.x) * kSize;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.y; first < p.num_rows;
       first += step) {
    const int64_t row = first + threadIdx.y;
    const int64_t width = row < p.num_rows ? p.width : 0;
    const T* const x = p.x + row * p.width;
    float values[kSize];
    float mean = 0;
    if constexpr (kCenters) {
      float sum = 0;
      for (int64_t column = begin; column < width; column += stride) {
        Load<kSize>(x + column, values);
#pragma unroll
        for (int j = 0; j < kSize; ++j) sum += values[j];
      }
      mean = GroupMean(reducer, sum, p.width);
    }
    float squares = 0;
    for (int64_t column = begin; column < width; column += stride) {
      Load<kSize>(x + column, values);
#pragma unroll
      for (int j = 0; j < kSize; ++j) squares += (values[j] - mean) * (values[j] - mean);
    }
    const float rstd = rsqrtf(GroupMean(reducer, squares, p.width) + p.epsilon);
    if (width > 0) StoreStatistics<kCenters>(p, row, mean, rstd);
    for (int64_t column = begin; column < width; column += stride) {
      Load<kSize>(x + column, values);
      StoreNormalized<kCenters, kSize>(p, row, column, mean, rstd, values);
    }
  }
}

template <bool kCenters, typename T>
void LaunchForward(const LaunchContext& context, const NormForwardArgs& args) {
  constexpr int kSize = kVectorSize<T>;
  const ForwardParams<T> params{
      args.x.As<T>(),        args.gamma.As<T>(),    args.beta.As<T>(), args.y.As<T>(),
      args.mean.As<float>(), args.rstd.As<float>(), args.num_rows,     args.width,
      args.epsilon};
  const LaunchShape shape =
      NormShape(context, args.num_rows, args.width, kElementsPerThread, kMaxThreads, 1024);
  const char* const name = kCenters ? "layer norm" : "rms norm";
  if (!CanVectorize(kSize, {args.x.data, args.gamma.data, args.beta.data, args.y.data},
                    {args.width})) {
    Launch(name, LongNormForwardKernel<kCenters, 1, T>, shape, context.stream, params);
  } else if (args.width > int64_t{shape.block.x} * kElementsPerThread) {
    Launch(name, LongNormForwardKernel<kCenters, kSize, T>, shape, context.stream, params);
  } else {
    Launch(name, NormForwardKernel<kCenters, T>, shape, context.stream, params);
  }
}

}  // namespace

void LayerNormForward(const LaunchContext& context, const NormForwardArgs& args) {
  WithFloatType(args.x.dtype, [&](auto tag) {
    LaunchForward<true, typename decltype(tag)::Type>(context, args);
  });
}

void RmsNormForward(const LaunchContext& context, const NormForwardArgs& args) {
  WithFloatType(args.x.dtype, [&](auto tag) {
    LaunchForward<false, typename decltype(tag)::Type>(context, args);
  });
}

}  // namespace tessera::kernels::cuda
