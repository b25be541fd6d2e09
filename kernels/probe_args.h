// What probes of machines and of devices run, over arrays that they hold.
#pragma once

#include <cmath>

#include "kernels/op_args.h"

namespace tessera::kernels {

// c = a b^T of square matrices.
inline MatMulArgs SquareMatMul(ConstArray a, ConstArray b, Array c, int64_t size) {
  return {.a = a,
          .b = b,
          .c = c,
          .m = size,
          .n = size,
          .k = size,
          .lda = size,
          .ldb = size,
          .ldc = size};
}

// One sequence whose q, k and v lie side by side in each row.
struct PackedAttentionArrays {
  Array qkv, dqkv;  // [sequence, 3 * num_heads * head_dim]
  Array out, dout;  // [sequence, num_heads * head_dim]
  Array stats;      // fp32 [num_heads, sequence]
};

struct PackedAttention {
  AttentionForwardArgs forward;
  AttentionBackwardArgs backward;
};

// Of both passes, of the causal half of 7 products.
inline double PackedAttentionFlops(int64_t sequence, int64_t num_heads, int64_t head_dim) {
  return 7.0 * static_cast<double>(num_heads * head_dim) *
         std::pow(static_cast<double>(sequence), 2);
}

inline PackedAttention MakePackedAttention(const PackedAttentionArrays& arrays, int64_t sequence,
                                           int64_t num_heads, int64_t head_dim) {
  const int64_t width = num_heads * head_dim;
  const float scale = 1 / std::sqrt(static_cast<float>(head_dim));
  PackedAttention attention;
  attention.forward = {.q = arrays.qkv,
                       .k = arrays.qkv.At(width),
                       .v = arrays.qkv.At(2 * width),
                       .out = arrays.out,
                       .stats = arrays.stats,
                       .batch = 1,
                       .sequence = sequence,
                       .num_heads = num_heads,
                       .num_kv_heads = num_heads,
                       .head_dim = head_dim,
                       .qkv_stride = 3 * width,
                       .out_stride = width,
                       .scale = scale};
  attention.backward = {.dout = arrays.dout,
                        .q = attention.forward.q,
                        .k = attention.forward.k,
                        .v = attention.forward.v,
                        .out = arrays.out,
                        .stats = arrays.stats,
                        .dq = arrays.dqkv,
                        .dk = arrays.dqkv.At(width),
                        .dv = arrays.dqkv.At(2 * width),
                        .batch = 1,
                        .sequence = sequence,
                        .num_heads = num_heads,
                        .num_kv_heads = num_heads,
                        .head_dim = head_dim,
                        .qkv_stride = 3 * width,
                        .out_stride = width,
                        .dqkv_stride = 3 * width,
                        .scale = scale};
  return attention;
}

}  // namespace tessera::kernels
