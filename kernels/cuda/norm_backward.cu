// LayerNorm and RMSNorm, backward. With n = (x - mean) * rstd and g = dy * gamma,
// dx = rstd * (g - mean(g) - n * mean(g n)); RMSNorm has neither mean nor the mean(g) term, nor
// dbeta. dgamma and dbeta are summed over the rows of a block in registers, over blocks in scratch.
#include "kernels/cuda/column_sums.cuh"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/norm_rows.cuh"
#include "kernels/cuda/shared_memory.cuh"
#include "kernels/cuda/types.cuh"

namespace tessera::kernels::cuda {
namespace {

constexpr int kMaxThreads = 512;  // of a block, so that each has 128 registers

// Elements of a row in a thread's registers: more where rows are wide, as far as they fit.
constexpr int kFewElements = 16;
template <typename T>
constexpr int kManyElements = sizeof(T) == 2 ? 32 : kFewElements;
// The sums of two parameters for many elements need more than 128 registers.
template <bool kCenters, int kElements>
constexpr int kMaxRowThreads = kCenters&& kElements > kFewElements ? 384 : kMaxThreads;
template <bool kCenters, int kElements>
constexpr int64_t kMostWidth = int64_t{kElements} * kMaxRowThreads<kCenters, kElements>;

template <typename T>
struct BackwardParams {
  const T* dy;  // dx may be dy or residual_grad
  const T* __restrict__ x;
  const T* __restrict__ gamma;
  const float* __restrict__ mean;
  const float* __restrict__ rstd;
  const T* residual_grad;
  T* dx;
  int64_t num_rows, width;
};

struct RowStatistics {
  float mean = 0, rstd = 0;
  float mean_g = 0, mean_gn = 0;
};

template <bool kCenters, typename T>
__device__ __forceinline__ RowStatistics LoadStatistics(const BackwardParams<T>& p, int64_t row) {
  RowStatistics statistics;
  if constexpr (kCenters) statistics.mean = p.mean[row];
  statistics.rstd = p.rstd[row];
  return statistics;
}

using Reducer = GroupReducer<float, 2>;

// Sums of g and of g n over the group become the row's means.
template <bool kCenters>
__device__ __forceinline__ void ReduceMeans(Reducer& reducer, float sum_g, float sum_gn,
                                            int64_t width, RowStatistics& statistics) {
  float sums[2] = {sum_g, sum_gn};
  reducer.Reduce(sums, SumOp(), 0.0F);
  if constexpr (kCenters) statistics.mean_g = sums[0] / static_cast<float>(width);
  statistics.mean_gn = sums[1] / static_cast<float>(width);
}

// Turns kSize values of dy into those of dx.
template <int kSize>
__device__ __forceinline__ void InputGrad(const RowStatistics& row, const float (&x)[kSize],
                                          const float (&gamma)[kSize], float (&dy)[kSize]) {
#pragma unroll
  for (int j = 0; j < kSize; ++j) {
    const float n = (x[j] - row.mean) * row.rstd;
    dy[j] = row.rstd * (dy[j] * gamma[j] - row.mean_g - n * row.mean_gn);
  }
}

template <int kSize, typename T>
__device__ __forceinline__ void AddResidual(const T* residual_grad, int64_t at,
                                            float (&dx)[kSize]) {
  if (residual_grad == nullptr) return;
  float residual[kSize];
  Load<kSize>(residual_grad + at, residual);
#pragma unroll
  for (int j = 0; j < kSize; ++j) dx[j] += residual[j];
}

// A thread's share of dgamma and dbeta: of the columns that it has in every row.
template <bool kCenters, typename T, int kPacks>
struct ParameterSums {
  static constexpr int kSize = kVectorSize<T>;
  static constexpr int kCount = kCenters ? 2 : 1;
  float sums[kCount][kPacks][kSize] = {};

  __device__ __forceinline__ void AddRow(int i, int j, float dy, float normalized) {
    sums[0][i][j] += dy * normalized;
    if constexpr (kCenters) sums[kCount - 1][i][j] += dy;
  }

  // The block's sums go to its place in `partial`, [kCount][width]; where it has several groups
  // they add up in order in shared memory, [kCount][width] too.
  __device__ __forceinline__ void StoreBlock(float* partial, int64_t width) const {
    float* const block = partial + static_cast<int64_t>(blockIdx.x) * kCount * width;
    auto* const shared = DynamicShared<float>();
    for (unsigned group = 0; group < blockDim.y; ++group) {
      if (group > 0) __syncthreads();
      if (threadIdx.y != group) continue;
      AddTo(group > 0 ? shared : nullptr, group + 1 < blockDim.y ? shared : block, width);
    }
  }

 private:
  // to = sums, or so_far + sums.
  __device__ __forceinline__ void AddTo(const float* so_far, float* to, int64_t width) const {
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      const int64_t column = RowPart<T, kPacks>::Column(i);
      if (column >= width) continue;
#pragma unroll
      for (int k = 0; k < kCount; ++k) {
        float values[kSize] = {};
        if (so_far != nullptr) Load<kSize>(so_far + k * width + column, values);
#pragma unroll
        for (int j = 0; j < kSize; ++j) values[j] += sums[k][i][j];
        Store<kSize>(values, to + k * width + column);
      }
    }
  }
};

// kCenters: LayerNorm; else RMSNorm. x and dy are read once and lie in the registers of the row's
// group. All groups of a block make the same number of turns, for they meet at barriers.
template <bool kCenters, typename T, int kPacks>
__global__ void __launch_bounds__(kMaxRowThreads<kCenters, kPacks * kVectorSize<T>>)
    NormBackwardKernel(const BackwardParams<T> p, float* __restrict__ partial) {
  using Part = RowPart<T, kPacks>;
  constexpr int kSize = Part::kSize;
  __shared__ float shared[Reducer::kSharedValues];
  Reducer reducer(shared);
  ParameterSums<kCenters, T, kPacks> parameter_sums;
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.y;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.y; first < p.num_rows;
       first += step) {
    const int64_t row = first + threadIdx.y;
    const int64_t width = row < p.num_rows ? p.width : 0;
    Part x_part, dy_part;
    x_part.LoadRow(p.x + row * p.width, width);
    dy_part.LoadRow(p.dy + row * p.width, width);
    RowStatistics statistics;
    if (width > 0) statistics = LoadStatistics<kCenters>(p, row);
    float x[kSize], dy[kSize], gamma[kSize];
    float sum_g = 0;
    float sum_gn = 0;
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      if (Part::Column(i) >= width) continue;
      Unpack(x_part.packs[i], x);
      Unpack(dy_part.packs[i], dy);
      Load<kSize>(p.gamma + Part::Column(i), gamma);
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        const float n = (x[j] - statistics.mean) * statistics.rstd;
        sum_g += dy[j] * gamma[j];
        sum_gn += dy[j] * gamma[j] * n;
        parameter_sums.AddRow(i, j, dy[j], n);
      }
    }
    ReduceMeans<kCenters>(reducer, sum_g, sum_gn, p.width, statistics);
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      if (Part::Column(i) >= width) continue;
      Unpack(x_part.packs[i], x);
      Unpack(dy_part.packs[i], dy);
      Load<kSize>(p.gamma + Part::Column(i), gamma);
      InputGrad<kSize>(statistics, x, gamma, dy);
      AddResidual<kSize>(p.residual_grad, row * p.width + Part::Column(i), dy);
      Store<kSize>(dy, p.dx + row * p.width + Part::Column(i));
    }
  }
  parameter_sums.StoreBlock(partial, p.width);
}

// dx for rows of any width, which are read again for each step.
template <bool kCenters, int kSize, typename T>
__global__ void __launch_bounds__(kMaxThreads) LongNormBackwardKernel(const BackwardParams<T> p) {
  __shared__ float shared[Reducer::kSharedValues];
  Reducer reducer(shared);
  const int64_t step = static_cast<int64_t>(gridDim.x) * blockDim.y;
  const int64_t begin = static_cast<int64_t>(threadIdx.x) * kSize;
  const int64_t stride = static_cast<int64_t>(blockDim.x) * kSize;
  for (int64_t first = static_cast<int64_t>(blockIdx.x) * blockDim.y; first < p.num_rows;
       first += step) {
    const int64_t row = first + threadIdx.y;
    const int64_t width = row < p.num_rows ? p.width : 0;
    RowStatistics statistics;
    if (width > 0) statistics = LoadStatistics<kCenters>(p, row);
    float x[kSize], dy[kSize], gamma[kSize];
    float sum_g = 0;
    float sum_gn = 0;
    for (int64_t column = begin; column < width; column += stride) {
      Load<kSize>(p.x + row * p.width + column, x);
      Load<kSize>(p.dy + row * p.width + column, dy);
      Load<kSize>(p.gamma + column, gamma);
#pragma unroll
      for (int j = 0; j < kSize; ++j) {
        sum_g += dy[j] * gamma[j];
        sum_gn += dy[j] * gamma[j] * (x[j] - statistics.mean) * statistics.rstd;
      }
    }
    ReduceMeans<kCenters>(reducer, sum_g, sum_gn, p.width, statistics);
    for (int64_t column = begin; column < width; column += stride) {
      const int64_t at = row * p.width + column;
      Load<kSize>(p.x + at, x);
      Load<kSize>(p.dy + at, dy);
      Load<kSize>(p.gamma + column, gamma);
      InputGrad<kSize>(statistics, x, gamma, dy);
      AddResidual<kSize>(p.residual_grad, at, dy);
      Store<kSize>(dy, p.dx + at);
    }
  }
}

// dgamma and dbeta where rows do not stay in registers: a pass of its own.
template <bool kCenters, typename T>
struct ParameterGradOp {
  static constexpr int kCount = kCenters ? 2 : 1;
  BackwardParams<T> p;
  int64_t first_column = 0;

  template <int kSize>
  __device__ void Add(int64_t row, int64_t column, float (&sums)[kCount][kSize]) const {
    const RowStatistics statistics = LoadStatistics<kCenters>(p, row);
    float x[kSize], dy[kSize];
    Load<kSize>(p.x + row * p.width + first_column + column, x);
    Load<kSize>(p.dy + row * p.width + first_column + column, dy);
#pragma unroll
    for (int j = 0; j < kSize; ++j) {
      sums[0][j] += dy[j] * (x[j] - statistics.mean) * statistics.rstd;
      if constexpr (kCenters) sums[kCount - 1][j] += dy[j];
    }
  }
};

template <bool kCenters>
constexpr const char* kName = kCenters ? "layer norm backward" : "rms norm backward";

// The sums over rows come first: dx may take the place of dy.
template <bool kCenters, int kSize, typename T>
void LaunchLong(const LaunchContext& context, const NormBackwardArgs& args,
                const BackwardParams<T>& params) {
  LaunchColumnSums<kSize>(context, kName<kCenters>, args.num_rows, args.width,
                          ParameterGradOp<kCenters, T>{params}, args.dgamma.As<float>(),
                          args.dbeta.As<float>());
  const LaunchShape shape =
      NormShape(context, args.num_rows, args.width, kFewElements, kMaxThreads, 1024);
  Launch(kName<kCenters>, LongNormBackwardKernel<kCenters, kSize, T>, shape, context.stream,
         params);
}

template <bool kCenters, int kElements, typename T>
void LaunchShort(const LaunchContext& context, const NormBackwardArgs& args,
                 const BackwardParams<T>& params) {
  constexpr int kPacks = kElements / kVectorSize<T>;
  const int64_t sums_bytes = (kCenters ? 2 : 1) * args.width * static_cast<int64_t>(sizeof(float));
  // Each block costs sums in scratch: no more of them than multiprocessors hold, by registers.
  constexpr bool kIsLean = !kCenters && sizeof(T) == 2 && kElements == kFewElements;
  LaunchShape shape = NormShape(context, args.num_rows, args.width, kElements,
                                kMaxRowThreads<kCenters, kElements>, kIsLean ? 1024 : 512);
  shape.grid.x =
      static_cast<unsigned>(std::min(int64_t{shape.grid.x}, context.scratch_bytes / sums_bytes));
  if (shape.block.y > 1) shape.shared_bytes = sums_bytes;
  auto* const partial = static_cast<float*>(context.scratch);
  Launch(kName<kCenters>, NormBackwardKernel<kCenters, T, kPacks>, shape, context.stream, params,
         partial);
  AddPartialSums(context, partial, shape.grid.x, args.width, args.dgamma.As<float>(),
                 args.dbeta.As<float>());
}

template <bool kCenters, typename T>
void LaunchBackward(const LaunchContext& context, const NormBackwardArgs& args) {
  constexpr int kSize = kVectorSize<T>;
  const BackwardParams<T> params{
      args.dy.As<T>(),       args.x.As<T>(),        args.gamma.As<T>(),
      args.mean.As<float>(), args.rstd.As<float>(), args.residual_grad.As<T>(),
      args.dx.As<T>(),       args.num_rows,         args.width};
  const bool vectorize = CanVectorize(
      kSize, {args.dy.data, args.x.data, args.gamma.data, args.residual_grad.data, args.dx.data},
      {args.width});
  if (!vectorize) {
    LaunchLong<kCenters, 1>(context, args, params);
  } else if (args.width <= kMostWidth<kCenters, kFewElements>) {
    LaunchShort<kCenters, kFewElements>(context, args, params);
  } else if (args.width <= kMostWidth<kCenters, kManyElements<T>>) {
    LaunchShort<kCenters, kManyElements<T>>(context, args, params);
  } else {
    LaunchLong<kCenters, kSize>(context, args, params);
  }
}

}  // namespace

void LayerNormBackward(const LaunchContext& context, const NormBackwardArgs& args) {
  WithFloatType(args.x.dtype, [&](auto tag) {
    LaunchBackward<true, typename decltype(tag)::Type>(context, args);
  });
}

void RmsNormBackward(const LaunchContext& context, const NormBackwardArgs& args) {
  WithFloatType(args.x.dtype, [&](auto tag) {
    LaunchBackward<false, typename decltype(tag)::Type>(context, args);
  });
}

}  // namespace tessera::kernels::cuda
