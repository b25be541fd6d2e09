// Dropout's masks on the device: the same as on the host.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/philox.cuh"
#include "kernels/cuda/types.cuh"
#include "kernels/dropout_args.h"

namespace tessera::kernels::cuda {

// What dropout does to elements, wherever they are.
struct DropoutRule {
  uint2 key;
  uint32_t threshold;  // draws from here on stay; 0: all
  float scale;         // of what stays

  __device__ __forceinline__ bool IsOn() const { return threshold != 0; }
};

inline DropoutRule DropoutRuleOf(float probability, base::PhiloxKey key) {
  return {make_uint2(key[0], key[1]), DropThreshold(probability), KeepScale(probability)};
}

// RowDropout.
struct RowDropoutRule {
  DropoutRule rule;
  uint64_t first_index, index_stride;
  int64_t first_row, sequence, whole_sequence;
  base::TokenPositions positions;

  // Elements [column, column + kSize) of a row.
  template <int kSize>
  __device__ __forceinline__ void Apply(int64_t row, int64_t column, float (&values)[kSize]) const {
    const uint64_t first = first_index + RowOf(row) * index_stride + static_cast<uint64_t>(column);
    PhiloxDraws draws(rule.key);
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      values[i] = draws.At(first + i) >= rule.threshold ? values[i] * rule.scale : 0.0F;
    }
  }

 private:
  __device__ __forceinline__ uint64_t RowOf(int64_t row) const {
    const int64_t token = first_row + row;
    if (sequence == 0) return static_cast<uint64_t>(token);
    const int64_t sample = token / sequence;
    return static_cast<uint64_t>(sample * whole_sequence +
                                 PositionOf(positions, token - sample * sequence));
  }
};

inline RowDropoutRule RowDropoutRuleOf(const RowDropout& dropout) {
  return {.rule = DropoutRuleOf(dropout.probability, dropout.key),
          .first_index = dropout.first_index,
          .index_stride = dropout.index_stride,
          .first_row = dropout.first_row,
          .sequence = dropout.sequence,
          .whole_sequence = dropout.whole_sequence,
          .positions = dropout.positions};
}

// AttentionDropout.
struct AttentionDropoutRule {
  DropoutRule rule;
  int64_t first_sample, first_head, num_heads, sequence;
  base::TokenPositions queries, keys;

  __device__ __forceinline__ bool IsOn() const { return rule.IsOn(); }
};

inline AttentionDropoutRule AttentionDropoutRuleOf(const AttentionDropout& dropout) {
  return {.rule = DropoutRuleOf(dropout.probability, dropout.key),
          .first_sample = dropout.first_sample,
          .first_head = dropout.first_head,
          .num_heads = dropout.num_heads,
          .sequence = dropout.sequence,
          .queries = dropout.queries,
          .keys = dropout.keys};
}

// The draws of one head of one sample.
class HeadDraws {
 public:
  __device__ __forceinline__ HeadDraws(const AttentionDropoutRule& dropout, int64_t batch,
                                       int64_t head)
      : dropout_(dropout),
        first_row_(
            ((dropout.first_sample + batch) * dropout.num_heads + dropout.first_head + head) *
            dropout.sequence),
        draws_(dropout.rule.key) {}

  // Whether the probability of a query's key stays. Neighbouring keys share the work.
  __device__ __forceinline__ bool Keeps(int64_t query, int64_t key) {
    const auto row = static_cast<uint64_t>(first_row_ + PositionOf(dropout_.queries, query));
    const uint64_t index = row * static_cast<uint64_t>(dropout_.sequence) +
                           static_cast<uint64_t>(PositionOf(dropout_.keys, key));
    return draws_.At(index) >= dropout_.rule.threshold;
  }

 private:
  const AttentionDropoutRule& dropout_;
  const int64_t first_row_;
  PhiloxDraws draws_;
};

}  // namespace tessera::kernels::cuda
