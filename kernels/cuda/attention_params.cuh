// What attention's kernels are told, and where heads lie.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/documents.cuh"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/masks.cuh"
#include "kernels/cuda/types.cuh"
#include "kernels/cuda/vectors.cuh"

namespace tessera::kernels::cuda {

// Whose gradients a block of the backward pass forms. Its rows stay in shared memory while the
// other side passes by: a block of queries meets the keys that its last query sees, a block of keys
// the queries from the first on that sees its first key, of every head of its group. Each gradient
// has one writer and one order of sums.
enum class Side { kQueries, kKeys };

// Sequences and heads, as op_args.h has them.
struct AttentionSizes {
  int64_t sequence = 0;  // of queries
  int64_t num_keys = 0;
  int64_t query_rows = 0, key_rows = 0;  // of a sample in the arrays
  // Query i sees the keys up to key i + shift. Under a full mask as many as there are keys.
  int64_t shift = 0;
  int num_heads = 0;
  int group_size = 0;  // query heads that read one key/value head
  int head_dim = 0;
  float scale = 1;
  bool has_quads = false;  // four elements of a row are moved at once
  AttentionDocumentRule documents;

  // First element of (batch, head) in statistics [batch, num_heads, query_rows].
  __host__ __device__ int64_t StatsRow(int64_t batch, int64_t head) const {
    return (batch * num_heads + head) * query_rows;
  }
  // First element of a query's in probabilities [batch, num_heads, sequence, num_keys].
  __device__ __forceinline__ int64_t ProbabilitiesRow(int64_t batch, int64_t head,
                                                      int64_t query) const {
    return ((batch * num_heads + head) * sequence + query) * num_keys;
  }
  // End of the keys that any query before `end` sees.
  __device__ __forceinline__ int64_t EndOfKeys(int64_t end) const {
    return min(end + shift, num_keys);
  }
  __device__ __forceinline__ bool IsHidden(int64_t query, int64_t key) const {
    return key > query + shift || key >= num_keys;
  }
  // The first query that sees a key.
  __device__ __forceinline__ int64_t FirstQueryOf(int64_t key) const {
    return max(key - shift, int64_t{0});
  }
  // Of tiles of keys the first key of the one where the keys begin that a query, or any behind it,
  // sees.
  __device__ __forceinline__ int64_t FirstTileOfKeys(int64_t batch, int64_t query,
                                                     int tile_size) const {
    if (!documents.IsOn()) return 0;
    return documents.FirstKeyOf(batch, query) / tile_size * tile_size;
  }
  // End of the queries of whose document any key before `end` is: all others begin behind it.
  __device__ __forceinline__ int64_t EndOfQueries(int64_t batch, int64_t end) const {
    if (!documents.IsOn()) return sequence;
    int64_t begin = 0;
    int64_t result = sequence;
    while (begin < result) {
      const int64_t middle = begin + (result - begin) / 2;
      if (documents.FirstKeyOf(batch, middle) < end) {
        begin = middle + 1;
      } else {
        result = middle;
      }
    }
    return result;
  }
};

inline constexpr int kQuad = 4;

template <typename Args>
AttentionSizes SizesOf(const Args& args, bool has_quads) {
  const bool is_full = args.mask == base::AttentionMask::kFull;
  return {.sequence = args.sequence,
          .num_keys = args.key_sequence,
          .query_rows = args.query_rows,
          .key_rows = args.key_rows,
          .shift = is_full ? args.key_sequence : args.key_sequence - args.sequence,
          .num_heads = static_cast<int>(args.num_heads),
          .group_size = static_cast<int>(args.num_heads / args.num_kv_heads),
          .head_dim = static_cast<int>(args.head_dim),
          .scale = args.scale,
          .has_quads = has_quads,
          .documents = AttentionDocumentRuleOf(args.documents)};
}

// Rows of one head of one sequence, from its first token on. T is const where they are read.
template <typename T>
struct HeadRows {
  T* data;
  int64_t stride;

  __device__ __forceinline__ T* Row(int64_t row) const { return data + row * stride; }
};

template <typename T>
__device__ __forceinline__ HeadRows<T> QueryHead(T* data, int64_t stride, int64_t batch,
                                                 int64_t head, const AttentionSizes& sizes) {
  return {data + batch * sizes.query_rows * stride + head * sizes.head_dim, stride};
}

template <typename T>
__device__ __forceinline__ HeadRows<T> KeyHead(T* data, int64_t stride, int64_t batch, int64_t head,
                                               const AttentionSizes& sizes) {
  return {data + batch * sizes.key_rows * stride + head * sizes.head_dim, stride};
}

template <typename T>
struct ForwardParams {
  AttentionSizes sizes;
  const T *q, *k, *v;
  T* out;
  float* log_sum_exp;  // or absent
  T* probabilities;    // or absent
  int64_t q_stride, kv_stride, out_stride;
  AttentionDropoutRule dropout;
};

template <typename T>
struct BackwardParams {
  AttentionSizes sizes;
  const T *dout, *q, *k, *v, *out;
  const float* log_sum_exp;  // or absent: then probabilities are there
  const T* probabilities;
  const float* delta;  // row sums of dout * out, as log_sum_exp; absent where kernels form them
  T *dq, *dk, *dv;     // or absent: then their sums are there
  float *dq_sums, *dk_sums, *dv_sums;
  int64_t q_stride, kv_stride, out_stride, dq_stride, dkv_stride;
  AttentionDropoutRule dropout;
};

template <typename T>
ForwardParams<T> ParamsOf(const AttentionForwardArgs& args) {
  const bool has_quads =
      CanVectorize(kQuad, {args.q.data, args.k.data, args.v.data, args.out.data},
                   {args.head_dim, args.qkv_stride, args.kv_stride, args.out_stride});
  const bool unfused = args.stats_kind == base::AttentionStats::kProbabilities;
  return {.sizes = SizesOf(args, has_quads),
          .q = args.q.As<T>(),
          .k = args.k.As<T>(),
          .v = args.v.As<T>(),
          .out = args.out.As<T>(),
          .log_sum_exp = unfused ? nullptr : args.stats.As<float>(),
          .probabilities = unfused ? args.stats.As<T>() : nullptr,
          .q_stride = args.qkv_stride,
          .kv_stride = args.kv_stride,
          .out_stride = args.out_stride,
          .dropout = AttentionDropoutRuleOf(args.dropout)};
}

template <typename T>
BackwardParams<T> ParamsOf(const AttentionBackwardArgs& args, const float* delta) {
  const bool has_quads = CanVectorize(kQuad,
                                      {args.dout.data, args.out.data, args.q.data, args.k.data,
                                       args.v.data, args.dq.data, args.dk.data, args.dv.data},
                                      {args.head_dim, args.qkv_stride, args.kv_stride,
                                       args.out_stride, args.dqkv_stride, args.dkv_stride});
  const bool sums_queries = args.sums == base::AttentionSums::kAll;
  const bool sums_keys = args.sums != base::AttentionSums::kNone;
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
          .dq = sums_queries ? nullptr : args.dq.As<T>(),
          .dk = sums_keys ? nullptr : args.dk.As<T>(),
          .dv = sums_keys ? nullptr : args.dv.As<T>(),
          .dq_sums = sums_queries ? args.dq.As<float>() : nullptr,
          .dk_sums = sums_keys ? args.dk.As<float>() : nullptr,
          .dv_sums = sums_keys ? args.dv.As<float>() : nullptr,
          .q_stride = args.qkv_stride,
          .kv_stride = args.kv_stride,
          .out_stride = args.out_stride,
          .dq_stride = args.dqkv_stride,
          .dkv_stride = args.dkv_stride,
          .dropout = AttentionDropoutRuleOf(args.dropout)};
}

}  // namespace tessera::kernels::cuda
