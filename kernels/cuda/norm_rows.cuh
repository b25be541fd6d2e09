// How the norms share out rows among threads: a row goes to a group of whole warps (threadIdx.x),
// which keeps it in registers where it fits; narrow rows share a block (threadIdx.y).
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

// kPacks packs of kSize elements of a row, as they lie in memory: those at threadIdx.x,
// threadIdx.x + blockDim.x and so on.
template <typename T, int kPacks>
struct RowPart {
  static constexpr int kSize = kVectorSize<T>;
  Packed<T, kSize> packs[kPacks];

  static __device__ __forceinline__ int64_t Column(int i) {
    return (threadIdx.x + static_cast<int64_t>(i) * blockDim.x) * kSize;
  }
  // What lies behind `width` reads as zero.
  __device__ __forceinline__ void LoadRow(const T* row, int64_t width) {
#pragma unroll
    for (int i = 0; i < kPacks; ++i) {
      packs[i] = Column(i) < width ? LoadPacked<kSize>(row + Column(i)) : Packed<T, kSize>{};
    }
  }
};

// Blocks for rows of `width` elements, of which a thread takes about `elements_per_thread`; groups
// of at most max_threads. Blocks take rows in turn, as many as make resident_threads on each
// multiprocessor.
inline LaunchShape NormShape(const LaunchContext& context, int64_t num_rows, int64_t width,
                             int64_t elements_per_thread, int64_t max_threads,
                             int64_t resident_threads) {
  constexpr int64_t kBlockThreads = 256;  // where groups are narrower
  const int64_t threads = std::min(
      base::RoundUp(base::CeilDiv(width, elements_per_thread), int64_t{kWarpSize}), max_threads);
  const int64_t rows = std::max(int64_t{1}, kBlockThreads / threads);
  const int64_t blocks_each = std::max(int64_t{1}, resident_threads / (threads * rows));
  const int64_t num_blocks =
      std::min(base::CeilDiv(num_rows, rows), blocks_each * context.num_multiprocessors);
  return {dim3(static_cast<unsigned>(num_blocks)),
          dim3(static_cast<unsigned>(threads), static_cast<unsigned>(rows))};
}

}  // namespace tessera::kernels::cuda
