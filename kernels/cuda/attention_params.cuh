// What attention's kernels are told, and where heads lie.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/launchers.h"
#include "kernels/cuda/types.cuh"
#include "kernels/cuda/vectors.cuh"

namespace tessera::kernels::cuda {

// Whose gradients a block of the backward pass forms. Its rows stay in shared memory while the
// other side passes by: a block of queries meets the keys up to its last query, a block of keys the
// queries from its first key on, of every head of its group. Each gradient has one writer and one
// order of sums.
enum class Side { kQueries, kKeys };

// Batch, sequence and heads, as op_args.h has them.
struct AttentionSizes {
  int64_t sequence = 0;
  int num_heads = 0;
  int group_size = 0;  // query heads that read one key/value head
  int head_dim = 0;
  float scale = 1;
  bool has_quads = false;  // four elements of a row are moved at once

  // First element of (batch, head) in statistics [batch, num_heads, sequence].
  __host__ __device__ int64_t StatsRow(int64_t batch, int64_t head) const {
    return (batch * num_heads + head) * sequence;
  }
};

inline constexpr int kQuad = 4;

template <typename Args>
AttentionSizes SizesOf(const Args& args, bool has_quads) {
  return {.sequence = args.sequence,
          .num_heads = static_cast<int>(args.num_heads),
          .group_size = static_cast<int>(args.num_heads / args.num_kv_heads),
          .head_dim = static_cast<int>(args.head_dim),
          .scale = args.scale,
          .has_quads = has_quads};
}

// Rows of one head of one sequence, from its first token on. T is const where they are read.
template <typename T>
struct HeadRows {
  T* data;
  int64_t stride;

  __device__ __forceinline__ T* Row(int64_t row) const { return data + row * stride; }
};

template <typename T>
__device__ __forceinline__ HeadRows<T> HeadOf(T* data, int64_t stride, int64_t batch, int64_t head,
                                              const AttentionSizes& sizes) {
  return {data + batch * sizes.sequence * stride + head * sizes.head_dim, stride};
}

template <typename T>
struct ForwardParams {
  AttentionSizes sizes;
  const T *q, *k, *v;
  T* out;
  float* log_sum_exp;  // or absent
  T* probabilities;    // or absent
  int64_t qkv_stride, out_stride;
};

template <typename T>
struct BackwardParams {
  AttentionSizes sizes;
  const T *dout, *q, *k, *v, *out;
  const float* log_sum_exp;  // or absent: then probabilities are there
  const T* probabilities;
  const float* delta;  // row sums of dout * out, as log_sum_exp; absent where kernels form them
  T *dq, *dk, *dv;
  int64_t qkv_stride, out_stride, dqkv_stride;
};

template <typename T>
ForwardParams<T> ParamsOf(const AttentionForwardArgs& args) {
  const bool has_quads = CanVectorize(kQuad, {args.q.data, args.k.data, args.v.data, args.out.data},
                                      {args.head_dim, args.qkv_stride, args.out_stride});
  const bool unfused = args.stats_kind == base::AttentionStats::kProbabilities;
  return {.sizes = SizesOf(args, has_quads),
          .q = args.q.As<T>(),
          .k = args.k.As<T>(),
          .v = args.v.As<T>(),
          .out = args.out.As<T>(),
          .log_sum_exp = unfused ? nullptr : args.stats.As<float>(),
          .probabilities = unfused ? args.stats.As<T>() : nullptr,
          .qkv_stride = args.qkv_stride,
          .out_stride = args.out_stride};
}

template <typename T>
BackwardParams<T> ParamsOf(const AttentionBackwardArgs& args, const float* delta) {
  const bool has_quads =
      CanVectorize(kQuad,
                   {args.dout.data, args.out.data, args.q.data, args.k.data, args.v.data,
                    args.dq.data, args.dk.data, args.dv.data},
                   {args.head_dim, args.qkv_stride, args.out_stride, args.dqkv_stride});
  const bool unfused = args.stats_kind == base::AttentionStats::kProbabilities;
  return {.sizes = SizesOf(args, has_quads),
          .dout = args.dout.As<T>(),
          .q = args.q.As<T>(),
          .k = args.k.As<T>(),
          .v = args.v.As<T>(),
          .out = args.out.As<T>(),
          .log_sum_exp = unfused ? nullptr : args.stats.As<float>(),
          .probabilities = unfused ? args.stats.As<T>() : nullptr,
          .delta = delta,
          .dq = args.dq.As<T>(),
          .dk = args.dk.As<T>(),
          .dv = args.dv.As<T>(),
          .qkv_stride = args.qkv_stride,
          .out_stride = args.out_stride,
          .dqkv_stride = args.dqkv_stride};
}

}  // namespace tessera::kernels::cuda
