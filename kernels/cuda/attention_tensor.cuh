// Attention's tiles on tensor cores: 16-bit rows in shared memory, products of 16x16x16 by wmma.
#pragma once

#include <cuda_runtime.h>
#include <mma.h>

#include <cstdint>
#include <numbers>

#include "kernels/cuda/attention_params.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/shared_memory.cuh"
#include "kernels/cuda/vectors.cuh"

namespace tessera::kernels::cuda {

inline constexpr int kFragment = 16;  // rows and columns of a fragment
inline constexpr int kTensorWarps = 4;
inline constexpr int kTensorThreads = kTensorWarps * kWarpSize;
inline constexpr int kChunk = 8;  // 16-bit elements in 16 bytes
inline constexpr float kLog2E = std::numbers::log2e_v<float>;
inline constexpr float kLn2 = std::numbers::ln2_v<float>;

namespace wmma = nvcuda::wmma;

using Accumulator = wmma::fragment<wmma::accumulator, kFragment, kFragment, kFragment, float>;
template <typename T>
using LeftFragment =
    wmma::fragment<wmma::matrix_a, kFragment, kFragment, kFragment, T, wmma::row_major>;
// [k, n] as stored, or stored transposed.
template <typename T>
using RightFragment =
    wmma::fragment<wmma::matrix_b, kFragment, kFragment, kFragment, T, wmma::row_major>;
template <typename T>
using TransposedFragment =
    wmma::fragment<wmma::matrix_b, kFragment, kFragment, kFragment, T, wmma::col_major>;

// Elements from a row of a tile in shared memory to the next: eight more than the width, so that
// the rows of a fragment lie in different banks.
template <int kWidth>
inline constexpr int kTileStride = kWidth + kChunk;

// Which elements of its tile the elements of a lane's accumulator are.
class FragmentPositions {
 public:
  static constexpr int kCount = Accumulator::num_elements;
  static_assert(kCount == 8);

  __device__ __forceinline__ explicit FragmentPositions(uint2 bits) : bits_(bits) {}

  __device__ __forceinline__ int Row(int e) const { return At(e) / kFragment; }
  __device__ __forceinline__ int Column(int e) const { return At(e) % kFragment; }

  // Rounds the fragment to T and stores it, row-major, at `tile`.
  template <typename T>
  __device__ __forceinline__ void Store(const Accumulator& from, T* tile, int stride) const {
#pragma unroll
    for (int e = 0; e < kCount; ++e) tile[Row(e) * stride + Column(e)] = FromFloat<T>(from.x[e]);
  }

 private:
  // Counted along rows; a byte each.
  __device__ __forceinline__ int At(int e) const {
    return static_cast<int>((e < 4 ? bits_.x : bits_.y) >> (e % 4 * 8) & 0xFFU);
  }

  uint2 bits_;
};

// The positions of all lanes of a block. The hardware does not tell them, so an accumulator that
// holds them is loaded and read. They lie in shared memory, as registers are scarce.
class FragmentMap {
 public:
  static constexpr int kSharedBytes = kTensorThreads * static_cast<int>(sizeof(uint2));

  // positions: kSharedBytes of shared memory. tile: 256 floats, the warp's own, 32-byte aligned;
  // free again afterwards.
  __device__ __forceinline__ FragmentMap(char* positions, float* tile)
      : own_(reinterpret_cast<uint2*>(positions) + threadIdx.x) {
    for (int i = threadIdx.x % kWarpSize; i < kFragment * kFragment; i += kWarpSize) {
      tile[i] = static_cast<float>(i);
    }
    __syncwarp();
    Accumulator numbers;
    wmma::load_matrix_sync(numbers, tile, kFragment, wmma::mem_row_major);
    __syncwarp();
    uint2 bits = make_uint2(0, 0);
#pragma unroll
    for (int e = 0; e < 4; ++e) {
      bits.x |= static_cast<unsigned>(numbers.x[e]) << (e * 8);
      bits.y |= static_cast<unsigned>(numbers.x[e + 4]) << (e * 8);
    }
    *own_ = bits;
  }

  __device__ __forceinline__ FragmentPositions Positions() const {
    return FragmentPositions(*own_);
  }

 private:
  uint2* own_;
};

// kRows rows of kWidth elements on their way from global to shared memory, by all threads of a
// block: fetched while the block still computes on what lies there.
template <typename T, int kRows, int kWidth>
class TileInFlight {
 public:
  // rows[first + row]; zeros behind the last row and the last element.
  __device__ __forceinline__ void Fetch(const HeadRows<const T>& rows, int64_t first,
                                        int64_t num_rows, int head_dim) {
    const auto num_valid = static_cast<int>(min(num_rows - first, int64_t{kRows}));
    const int end = Column() < head_dim ? num_valid : 0;
    const T* const from = rows.Row(first + Row(0)) + Column();
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      chunks_[i] = Row(i) < end ? LoadPacked<kChunk>(from + i * kRowStep * rows.stride) : Chunk{};
    }
  }

  __device__ __forceinline__ void Put(T* tile) const {
    T* const to = tile + Row(0) * kTileStride<kWidth> + Column();
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      StorePacked(chunks_[i], to + i * kRowStep * kTileStride<kWidth>);
    }
  }

 private:
  using Chunk = Packed<T, kChunk>;
  static constexpr int kChunksOfRow = kWidth / kChunk;
  static constexpr int kRowStep = kTensorThreads / kChunksOfRow;  // rows moved at once
  static constexpr int kCount = kRows / kRowStep;
  static_assert(kRowStep * kChunksOfRow == kTensorThreads && kCount * kRowStep == kRows);

  static __device__ __forceinline__ int Row(int i) {
    return static_cast<int>(threadIdx.x) / kChunksOfRow + i * kRowStep;
  }
  static __device__ __forceinline__ int Column() {
    return static_cast<int>(threadIdx.x) % kChunksOfRow * kChunk;
  }

  Chunk chunks_[kCount];
};

// rows[first + row] = tile[row] for kRows rows, by one warp.
template <int kRows, int kWidth, typename T>
__device__ __forceinline__ void StoreRows(const T* tile, const HeadRows<T>& rows, int64_t first,
                                          int64_t num_rows, int head_dim) {
  constexpr int kChunksOfRow = kWidth / kChunk;
  for (int i = threadIdx.x % kWarpSize; i < kRows * kChunksOfRow; i += kWarpSize) {
    const int row = i / kChunksOfRow;
    const int column = i % kChunksOfRow * kChunk;
    if (first + row < num_rows && column < head_dim) {
      StorePacked(LoadPacked<kChunk>(tile + row * kTileStride<kWidth> + column),
                  rows.Row(first + row) + column);
    }
  }
}

// Calls body(std::integral_constant<int, width>) with the narrowest tile for the head dimension.
template <typename Body>
void WithTensorWidth(int64_t head_dim, const Body& body) {
  if (head_dim <= 64) {
    body(std::integral_constant<int, 64>());
  } else {
    body(std::integral_constant<int, 128>());
  }
}

// Calls body(TypeTag<T>()) with the 16-bit type of `dtype`.
template <typename Body>
void WithTensorType(base::DType dtype, const Body& body) {
  if (dtype == base::DType::kBFloat16) {
    body(TypeTag<__nv_bfloat16>());
  } else {
    body(TypeTag<__half>());
  }
}

}  // namespace tessera::kernels::cuda
