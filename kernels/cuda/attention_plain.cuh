// Attention's tiles on CUDA cores: kRows x kRows scores, rows of up to kWidth elements, in fp32.
//
// Eight lanes (a group) own two rows of the scores, kRows / 2 apart, and the sums that belong to
// these rows: what a group writes of weights only it reads.
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstdint>

#include "kernels/cuda/attention_params.cuh"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/shared_memory.cuh"

namespace tessera::kernels::cuda {

inline constexpr int kGroupLanes = 8;
inline constexpr int kGroupRows = 2;

template <int kWidthValue>
struct PlainTile {
  static constexpr int kWidth = kWidthValue;
  // Wide rows come in smaller tiles, so that four tiles fit into 96 KiB.
  static constexpr int kRows = kWidth <= 128 ? 32 : 16;
  static constexpr int kThreads = kRows / kGroupRows * kGroupLanes;
  static constexpr int kColumns = kRows / kGroupLanes;           // scores of a row that a lane has
  static constexpr int kQuads = kWidth / (kQuad * kGroupLanes);  // of sums of a row that a lane has
  // Four floats more than the width: eight rows read at one column lie in different banks.
  static constexpr int kStride = kWidth + 4;
  static constexpr int kFloats = kRows * kStride;
  static constexpr int kWeightStride = kRows + 1;
  static constexpr int kWeightFloats = kRows * kWeightStride;

  using Scores = float[kGroupRows][kColumns];
  using Sums = float[kGroupRows][kQuads][kQuad];

  // The running thread's place: its rows are group and group + kRows / 2.
  static __device__ __forceinline__ int Group() { return threadIdx.x / kGroupLanes; }
  static __device__ __forceinline__ int Lane() { return threadIdx.x % kGroupLanes; }
  static __device__ __forceinline__ int Row(int i) { return Group() + i * (kRows / kGroupRows); }
  static __device__ __forceinline__ int Column(int j) { return Lane() + j * kGroupLanes; }

  // tile[row] = rows[first + row] of num_rows rows, zeros behind the last row and the last element.
  // All threads.
  template <typename T>
  static __device__ void LoadTile(const HeadRows<const T>& rows, int64_t first, int64_t num_rows,
                                  const AttentionSizes& sizes, float* tile) {
    const int padded = NumQuads(sizes.head_dim) * kQuad * kGroupLanes;
    for (int i = 0; i < kGroupRows; ++i) {
      const int row = Row(i);
      const T* const from = rows.Row(first + row);
      float* const to = tile + row * kStride;
      const int valid = first + row < num_rows ? sizes.head_dim : 0;
      if (sizes.has_quads) {
        for (int column = FirstOf(0); column < padded; column += kQuad * kGroupLanes) {
          float values[kQuad] = {};
          if (column < valid) Load<kQuad>(from + column, values);
          Store<kQuad>(values, to + column);
        }
      } else {
        for (int column = Lane(); column < padded; column += kGroupLanes) {
          to[column] = column < valid ? ToFloat(from[column]) : 0.0F;
        }
      }
    }
  }

  // scores[row, column] = sum over d of a[row, d] * b[column, d].
  static __device__ __forceinline__ void Multiply(const float* a, const float* b, int head_dim,
                                                  Scores& scores) {
    for (int i = 0; i < kGroupRows; ++i) {
      for (int j = 0; j < kColumns; ++j) scores[i][j] = 0;
    }
    for (int d = 0; d < head_dim; d += kQuad) {
      float4 left[kGroupRows];
#pragma unroll
      for (int i = 0; i < kGroupRows; ++i) left[i] = QuadAt(a + Row(i) * kStride + d);
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        const float4 right = QuadAt(b + Column(j) * kStride + d);
#pragma unroll
        for (int i = 0; i < kGroupRows; ++i) {
          float sum = scores[i][j];
          sum = fmaf(left[i].x, right.x, sum);
          sum = fmaf(left[i].y, right.y, sum);
          sum = fmaf(left[i].z, right.z, sum);
          scores[i][j] = fmaf(left[i].w, right.w, sum);
        }
      }
    }
  }

  // A bit for each of a lane's scores: whether `is_set` says so of its row and column.
  template <typename Predicate>
  static __device__ __forceinline__ uint32_t BitsOf(const Predicate& is_set) {
    static_assert(kGroupRows * kColumns <= 32);
    uint32_t bits = 0;
    // Unrolled, what the predicate works out would stand in the code for each score.
#pragma unroll 1
    for (int i = 0; i < kGroupRows * kColumns; ++i) {
      if (is_set(Row(i / kColumns), Column(i % kColumns))) bits |= 1U << i;
    }
    return bits;
  }
  static __device__ __forceinline__ bool HasBit(uint32_t bits, int i, int j) {
    return (bits >> (i * kColumns + j) & 1U) != 0;
  }
  // Zeros where no bit is set.
  static __device__ __forceinline__ void Select(uint32_t bits, Scores& scores) {
#pragma unroll
    for (int i = 0; i < kGroupRows; ++i) {
#pragma unroll
      for (int j = 0; j < kColumns; ++j) {
        if (!HasBit(bits, i, j)) scores[i][j] = 0;
      }
    }
  }

  // Scores to where AddWeighted reads them; the group's own rows.
  static __device__ __forceinline__ void StoreWeights(const Scores& scores, float* weights) {
#pragma unroll
    for (int i = 0; i < kGroupRows; ++i) {
#pragma unroll
      for (int j = 0; j < kColumns; ++j) weights[Row(i) * kWeightStride + Column(j)] = scores[i][j];
    }
  }

  // sums[row] += sum over r of weights[row, r] * tile[r].
  static __device__ __forceinline__ void AddWeighted(const float* weights, const float* tile,
                                                     int head_dim, Sums& sums) {
    const int num_quads = NumQuads(head_dim);
    for (int r = 0; r < kRows; ++r) {
      float weight[kGroupRows];
#pragma unroll
      for (int i = 0; i < kGroupRows; ++i) weight[i] = weights[Row(i) * kWeightStride + r];
#pragma unroll
      for (int quad = 0; quad < kQuads; ++quad) {
        if (quad >= num_quads) break;
        const float4 value = QuadAt(tile + r * kStride + FirstOf(quad));
#pragma unroll
        for (int i = 0; i < kGroupRows; ++i) {
          float(&sum)[kQuad] = sums[i][quad];
          sum[0] = fmaf(weight[i], value.x, sum[0]);
          sum[1] = fmaf(weight[i], value.y, sum[1]);
          sum[2] = fmaf(weight[i], value.z, sum[2]);
          sum[3] = fmaf(weight[i], value.w, sum[3]);
        }
      }
    }
  }

  // rows[first + row] = sums[row] * factor[i] for num_rows rows, i the row's number in its group.
  template <typename T>
  static __device__ void StoreSums(const Sums& sums, const float (&factor)[kGroupRows],
                                   const HeadRows<T>& rows, int64_t first, int64_t num_rows,
                                   const AttentionSizes& sizes) {
#pragma unroll
    for (int i = 0; i < kGroupRows; ++i) {
      const int64_t row = first + Row(i);
      if (row >= num_rows) continue;
#pragma unroll
      for (int quad = 0; quad < kQuads; ++quad) {
        float values[kQuad];
#pragma unroll
        for (int e = 0; e < kQuad; ++e) values[e] = sums[i][quad][e] * factor[i];
        StoreQuad(values, rows.Row(row) + FirstOf(quad), sizes.head_dim - FirstOf(quad),
                  sizes.has_quads);
      }
    }
  }

  // rows[first + row] += sums[row] * factor.
  static __device__ void AddSums(const Sums& sums, float factor, const HeadRows<float>& rows,
                                 int64_t first, int64_t num_rows, const AttentionSizes& sizes) {
#pragma unroll
    for (int i = 0; i < kGroupRows; ++i) {
      const int64_t row = first + Row(i);
      if (row >= num_rows) continue;
#pragma unroll
      for (int quad = 0; quad < kQuads; ++quad) {
        float* const to = rows.Row(row) + FirstOf(quad);
        const int count = sizes.head_dim - FirstOf(quad);
#pragma unroll
        for (int e = 0; e < kQuad; ++e) {
          if (e < count) to[e] = fmaf(sums[i][quad][e], factor, to[e]);
        }
      }
    }
  }

 private:
  // Quads of a row of this length that a lane has.
  static __device__ __forceinline__ int NumQuads(int head_dim) {
    return (head_dim + kQuad * kGroupLanes - 1) / (kQuad * kGroupLanes);
  }
  static __device__ __forceinline__ int FirstOf(int quad) {
    return (quad * kGroupLanes + Lane()) * kQuad;
  }
  static __device__ __forceinline__ float4 QuadAt(const float* at) {
    return *reinterpret_cast<const float4*>(at);
  }
  // The first `count` of the values, which may be none.
  template <typename T>
  static __device__ __forceinline__ void StoreQuad(const float (&values)[kQuad], T* to, int count,
                                                   bool at_once) {
    if (at_once) {
      if (count > 0) Store<kQuad>(values, to);
    } else {
#pragma unroll
      for (int e = 0; e < kQuad; ++e) {
        if (e < count) to[e] = FromFloat<T>(values[e]);
      }
    }
  }
};

// Calls body(PlainTile<width>()) with the narrowest tile that takes the head dimension.
template <typename Body>
void WithPlainTile(int64_t head_dim, const Body& body) {
  if (head_dim <= 64) {
    body(PlainTile<64>());
  } else if (head_dim <= 128) {
    body(PlainTile<128>());
  } else {
    body(PlainTile<256>());
  }
}

}  // namespace tessera::kernels::cuda
