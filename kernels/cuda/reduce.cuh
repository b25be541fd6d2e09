// Sums and maxima over the threads of a warp or of a group of warps, in a fixed order.
#pragma once

#include <cuda_runtime.h>

namespace tessera::kernels::cuda {

inline constexpr int kWarpSize = 32;
inline constexpr int kMaxWarps = 1024 / kWarpSize;  // of a block
inline constexpr unsigned kAllLanes = 0xFFFFFFFFU;

struct SumOp {
  template <typename T>
  __device__ __forceinline__ T operator()(T a, T b) const {
    return a + b;
  }
};

struct MaxOp {
  __device__ __forceinline__ float operator()(float a, float b) const { return fmaxf(a, b); }
};

// The reduction over kLanes neighbouring lanes, a power of two, in all of them.
template <int kLanes = kWarpSize, typename Op, typename T>
__device__ __forceinline__ T WarpReduce(T value, Op op) {
#pragma unroll
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    value = op(value, __shfl_xor_sync(kAllLanes, value, distance));
  }
  return value;
}

// Reduces kCount values over groups of threads: those of one threadIdx.y, a whole number of warps.
// Two halves of the shared memory take turns, so that one barrier a reduction is enough.
template <typename T, int kCount>
class GroupReducer {
 public:
  static constexpr int kSharedValues = 2 * kCount * kMaxWarps;

  // shared: kSharedValues values, the block's; all threads of a block use the same.
  __device__ __forceinline__ explicit GroupReducer(T* shared) : shared_(shared) {}

  // Each value becomes its reduction over the group, in all threads of the group. All threads of
  // the block call it, unless groups are single warps.
  template <typename Op>
  __device__ __forceinline__ void Reduce(T (&values)[kCount], Op op, T identity) {
#pragma unroll
    for (int i = 0; i < kCount; ++i) values[i] = WarpReduce(values[i], op);
    if (blockDim.x == kWarpSize) return;
    const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
    const int num_warps = static_cast<int>(blockDim.x) / kWarpSize;  // of the group
    T* const half = shared_ + (odd_ ? kCount * kMaxWarps : 0);
    T* const group = half + static_cast<int>(threadIdx.y) * num_warps * kCount;
    odd_ = !odd_;
    if (lane == 0) {
      const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
#pragma unroll
      for (int i = 0; i < kCount; ++i) group[i * num_warps + warp] = values[i];
    }
    __syncthreads();
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      values[i] = WarpReduce(lane < num_warps ? group[i * num_warps + lane] : identity, op);
    }
  }

 private:
  T* shared_;
  bool odd_ = false;
};

// The reduction of one value over a block of blockDim.y == 1, in all threads. Not for loops: its
// shared memory is used once.
template <typename T, typename Op>
__device__ __forceinline__ T BlockReduce(T value, Op op, T identity) {
  __shared__ T shared[GroupReducer<T, 1>::kSharedValues];
  T values[1] = {value};
  GroupReducer<T, 1>(shared).Reduce(values, op, identity);
  return values[0];
}

}  // namespace tessera::kernels::cuda
