// Sums over the rows of a matrix, column by column, in two stages and a fixed order: blocks sum
// some rows each into scratch, then the blocks' sums are added to the result.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "cost_model/base/check.h"
#include "cost_model/base/math.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/reduce.cuh"

namespace tessera::kernels::cuda {

inline constexpr int kColumnSumWarps = 8;  // of a block

// partial: [num_partials][kCount][width], `second` absent where kCount is 1. first[j] += sum over
// the partials of [.][0][j], second[j] += that of [.][1][j].
void AddPartialSums(const LaunchContext& context, const float* partial, int64_t num_partials,
                    int64_t width, float* first, float* second);

// Op: `template <int kSize> __device__ void Add(int64_t row, int64_t column, float (&sums)[kCount]
// [kSize]) const` with kCount = Op::kCount. A block sums the columns of its tile over its share of
// the rows; blockIdx.x counts tiles, blockIdx.y shares.
template <int kSize, typename Op>
__global__ void __launch_bounds__(kColumnSumWarps* kWarpSize)
    ColumnSumKernel(int64_t num_rows, int64_t width, Op op, float* __restrict__ partial) {
  constexpr int kTile = kWarpSize * kSize;
  __shared__ float shared[kColumnSumWarps][Op::kCount][kTile];
  const int64_t first_column = static_cast<int64_t>(blockIdx.x) * kTile;
  const int64_t column = first_column + static_cast<int64_t>(threadIdx.x) * kSize;
  float sums[Op::kCount][kSize] = {};
  if (column < width) {
    const int64_t step = static_cast<int64_t>(gridDim.y) * kColumnSumWarps;
    for (int64_t row = static_cast<int64_t>(blockIdx.y) * kColumnSumWarps + threadIdx.y;
         row < num_rows; row += step) {
      op.template Add<kSize>(row, column, sums);
    }
  }
#pragma unroll
  for (int i = 0; i < Op::kCount; ++i) {
#pragma unroll
    for (int j = 0; j < kSize; ++j) shared[threadIdx.y][i][threadIdx.x * kSize + j] = sums[i][j];
  }
  __syncthreads();
  const int thread = static_cast<int>(threadIdx.y * kWarpSize + threadIdx.x);
  for (int at = thread; at < Op::kCount * kTile; at += kColumnSumWarps * kWarpSize) {
    const int i = at / kTile;
    const int j = at % kTile;
    if (first_column + j >= width) continue;
    float sum = shared[0][i][j];
#pragma unroll
    for (int warp = 1; warp < kColumnSumWarps; ++warp) sum += shared[warp][i][j];
    partial[(static_cast<int64_t>(blockIdx.y) * Op::kCount + i) * width + first_column + j] = sum;
  }
}

// first[j] += the sum over all rows of op's first value in column j, second[j] += that of its
// second value. Wide matrices go in pieces that the scratch has room for. Op: as above, with a
// member `first_column` that is added to the columns it is called with.
template <int kSize, typename Op>
void LaunchColumnSums(const LaunchContext& context, const char* name, int64_t num_rows,
                      int64_t width, Op op, float* first, float* second) {
  constexpr int64_t kTile = kWarpSize * kSize;
  constexpr int64_t kColumnBytes = Op::kCount * sizeof(float);
  constexpr int64_t kMostShares = 1024;
  const int64_t piece_width = std::min(width, context.scratch_bytes / kColumnBytes / kTile * kTile);
  TESSERA_CHECK(piece_width > 0, "scratch of ", context.scratch_bytes, " bytes");
  auto* const partial = static_cast<float*>(context.scratch);
  const int64_t wanted_blocks = 8 * context.num_multiprocessors;
  for (int64_t begin = 0; begin < width; begin += piece_width) {
    const int64_t columns = std::min(piece_width, width - begin);
    const int64_t num_tiles = base::CeilDiv(columns, kTile);
    const int64_t num_shares = std::min(
        {base::CeilDiv(num_rows, int64_t{kColumnSumWarps}), base::CeilDiv(wanted_blocks, num_tiles),
         context.scratch_bytes / (kColumnBytes * columns), kMostShares});
    const LaunchShape shape{
        dim3(static_cast<unsigned>(num_tiles), static_cast<unsigned>(num_shares)),
        dim3(kWarpSize, kColumnSumWarps)};
    op.first_column = begin;
    Launch(name, ColumnSumKernel<kSize, Op>, shape, context.stream, num_rows, columns, op, partial);
    AddPartialSums(context, partial, num_shares, columns, first + begin,
                   second == nullptr ? nullptr : second + begin);
  }
}

}  // namespace tessera::kernels::cuda
