// Kernels that treat each element by itself, over a flat array or over the rows of a matrix: what
// they do comes as an object with a Run method, which takes kSize neighbouring elements at once.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "cost_model/base/math.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/vectors.cuh"

namespace tessera::kernels::cuda {

inline constexpr int kElementThreads = 256;  // of a block
// Blocks of kElementThreads that a multiprocessor holds: its 2048 threads.
inline constexpr int64_t kElementBlocksPerMultiprocessor = 8;

// Op: `template <int kSize> __device__ void Run(int64_t i) const`, on elements [i, i + kSize).
template <int kSize, typename Op>
__global__ void __launch_bounds__(kElementThreads, 4) FlatKernel(int64_t n, Op op) {
  const int64_t num_threads = static_cast<int64_t>(gridDim.x) * kElementThreads;
  const int64_t thread = static_cast<int64_t>(blockIdx.x) * kElementThreads + threadIdx.x;
  const int64_t num_packs = n / kSize;
  for (int64_t pack = thread; pack < num_packs; pack += num_threads) {
    op.template Run<kSize>(pack * kSize);
  }
  if constexpr (kSize > 1) {
    const int64_t last = num_packs * kSize + thread;
    if (last < n) op.template Run<1>(last);
  }
}

// Runs op over n elements, kSize at once where `vectorize`.
template <int kSize, typename Op>
void LaunchFlat(const LaunchContext& context, const char* name, int64_t n, bool vectorize,
                const Op& op) {
  if (n == 0) return;
  const int64_t num_packs = vectorize ? base::CeilDiv(n, int64_t{kSize}) : n;
  const int64_t num_blocks =
      std::min(base::CeilDiv(num_packs, int64_t{kElementThreads}),
               context.num_multiprocessors * kElementBlocksPerMultiprocessor);
  const LaunchShape shape{dim3(static_cast<unsigned>(num_blocks)), dim3(kElementThreads)};
  if (vectorize) {
    Launch(name, FlatKernel<kSize, Op>, shape, context.stream, n, op);
  } else {
    Launch(name, FlatKernel<1, Op>, shape, context.stream, n, op);
  }
}

// Op: `template <int kSize> __device__ void Run(int64_t row, int64_t column) const`, on the
// elements of `row` in [column, column + kSize).
template <int kSize, typename Op>
__global__ void __launch_bounds__(kElementThreads)
    RowKernel(int64_t num_rows, int64_t width, Op op) {
  const int64_t column_step = static_cast<int64_t>(gridDim.y) * blockDim.x * kSize;
  const int64_t row_step = static_cast<int64_t>(gridDim.x) * blockDim.y;
  const int64_t first_row = static_cast<int64_t>(blockIdx.x) * blockDim.y + threadIdx.y;
  const int64_t first_column =
      (static_cast<int64_t>(blockIdx.y) * blockDim.x + threadIdx.x) * kSize;
  for (int64_t column = first_column; column < width; column += column_step) {
    for (int64_t row = first_row; row < num_rows; row += row_step) {
      op.template Run<kSize>(row, column);
    }
  }
}

// Blocks whose threads lie along the columns as evenly as warps allow.
inline LaunchShape RowShape(const LaunchContext& context, int64_t num_rows, int64_t num_packs) {
  constexpr int64_t kMaxGridHeight = 65535;
  const int64_t num_tiles = base::CeilDiv(num_packs, int64_t{kElementThreads});
  const int64_t threads_x = base::RoundUp(base::CeilDiv(num_packs, num_tiles), int64_t{kWarpSize});
  const int64_t threads_y = kElementThreads / threads_x;
  const int64_t grid_y = std::min(num_tiles, kMaxGridHeight);
  const int64_t wanted = context.num_multiprocessors * kElementBlocksPerMultiprocessor;
  const int64_t grid_x =
      std::clamp(base::CeilDiv(wanted, grid_y), int64_t{1}, base::CeilDiv(num_rows, threads_y));
  return {dim3(static_cast<unsigned>(grid_x), static_cast<unsigned>(grid_y)),
          dim3(static_cast<unsigned>(threads_x), static_cast<unsigned>(threads_y))};
}

// Runs op over num_rows rows of `width` elements, kSize at once where `vectorize` (which demands
// that kSize divides width).
template <int kSize, typename Op>
void LaunchRows(const LaunchContext& context, const char* name, int64_t num_rows, int64_t width,
                bool vectorize, const Op& op) {
  if (num_rows == 0 || width == 0) return;
  const LaunchShape shape = RowShape(context, num_rows, vectorize ? width / kSize : width);
  if (vectorize) {
    Launch(name, RowKernel<kSize, Op>, shape, context.stream, num_rows, width, op);
  } else {
    Launch(name, RowKernel<1, Op>, shape, context.stream, num_rows, width, op);
  }
}

// Op: as of RowKernel; sums[row] = sum of what Run returns, in a fixed order. A block to a row.
template <int kSize, typename Op>
__global__ void __launch_bounds__(kElementThreads) RowSumKernel(int64_t width, float* sums, Op op) {
  const int64_t row = blockIdx.x;
  const int64_t step = static_cast<int64_t>(blockDim.x) * kSize;
  float sum = 0;
  for (int64_t column = static_cast<int64_t>(threadIdx.x) * kSize; column < width; column += step) {
    sum += op.template Run<kSize>(row, column);
  }
  sum = BlockReduce(sum, SumOp(), 0.0F);
  if (threadIdx.x == 0) sums[row] = sum;
}

// LaunchRows, and sums[num_rows] of each row.
template <int kSize, typename Op>
void LaunchRowSums(const LaunchContext& context, const char* name, int64_t num_rows, int64_t width,
                   bool vectorize, float* sums, const Op& op) {
  if (num_rows == 0) return;
  const int64_t num_packs = vectorize ? width / kSize : width;
  const int64_t threads =
      std::min(base::RoundUp(num_packs, int64_t{kWarpSize}), int64_t{kElementThreads});
  const LaunchShape shape{dim3(static_cast<unsigned>(num_rows)),
                          dim3(static_cast<unsigned>(threads))};
  if (vectorize) {
    Launch(name, RowSumKernel<kSize, Op>, shape, context.stream, width, sums, op);
  } else {
    Launch(name, RowSumKernel<1, Op>, shape, context.stream, width, sums, op);
  }
}

}  // namespace tessera::kernels::cuda
