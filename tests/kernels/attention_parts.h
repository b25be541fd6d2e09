// Attention in parts, as the ranks of a context-parallel group compute it, held against the whole:
// rank r of n holds chunks r and 2n-1-r of the 2n chunks of every sequence. For any backend.
#pragma once

#include <string>

#include "tests/kernels/half_test.h"

namespace tessera::kernels::testing {

// Attention of whole sequences and its gradients in double, and the operands in a type. With a
// probability of dropout the samples and heads are a part of more.
class WholeAttention {
 public:
  WholeAttention(DType dtype, const reference::AttentionShape& shape, int num_ranks,
                 float dropout_probability = 0);

  DType dtype() const { return dtype_; }
  const reference::AttentionShape& shape() const { return shape_; }
  int num_ranks() const { return num_ranks_; }
  int64_t chunk() const { return shape_.sequence / (2 * num_ranks_); }
  int64_t rank_rows() const { return 2 * chunk() * shape_.batch; }

  // Rows of a rank's tokens, sample by sample, of a matrix with a row for every token.
  Doubles RowsOf(int rank, const Doubles& matrix, int64_t width) const;
  // The same of [batch, num_heads, sequence].
  Doubles StatsOf(int rank, const Doubles& stats) const;
  // Where a rank's tokens lie.
  base::TokenPositions PositionsOf(int rank) const;
  // Of queries and keys at these positions.
  AttentionDropout Dropout(const base::TokenPositions& queries,
                           const base::TokenPositions& keys) const;
  // Keys and values side by side, all tokens.
  Doubles KeysAndValues(const Doubles& keys, const Doubles& values) const;

  Doubles q, k, v, dout;
  reference::AttentionResult result;
  reference::AttentionGrads grads;

 private:
  Doubles Mask() const;

  DType dtype_;
  reference::AttentionShape shape_;
  int num_ranks_;
  float dropout_probability_;
};

// Blocks of keys and values go round: partial outputs merged, gradients added up by the ranks in
// turn.
void ExpectRingIsWhole(Backend& backend, const WholeAttention& whole);
// Each rank sees the keys of all up to the end of either chunk of its own.
void ExpectGatheredIsWhole(Backend& backend, const WholeAttention& whole,
                           base::AttentionStats stats_kind);

}  // namespace tessera::kernels::testing
