// Attention of whole samples and its gradients in double: what parts of it are held against.
#pragma once

#include "tests/kernels/half_test.h"

namespace tessera::kernels::testing {

inline Doubles Zeros(int64_t n) { return Doubles(static_cast<size_t>(n), 0.0); }

struct WholeAttentionOptions {
  float dropout_probability = 0;
  bool has_documents = false;
};

// Attention of whole sequences and its gradients in double, and the operands in a type. With a
// probability of dropout the samples and heads are a part of more. With documents each sample holds
// some, and what is expected is attention of each document apart.
class WholeAttention {
 public:
  WholeAttention(DType dtype, const reference::AttentionShape& shape, int num_ranks,
                 const WholeAttentionOptions& options = {});

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
  // As kernels::DocumentStarts; empty without documents.
  const std::vector<int32_t>& document_starts() const { return document_starts_; }
  // Of a rank's tokens [rows, heads * head_dim], scale * (dout . out) * sum_j P_j k_j: the backward
  // pass of softmax takes it from scale * sum_j P_j (dout . v_j) k_j to make dq. In a document of
  // one token nothing is left of the two, in short ones little. Empty without documents.
  Doubles SubtractedFromDq(int rank) const;
  // Keys and values side by side, all tokens.
  Doubles KeysAndValues(const Doubles& keys, const Doubles& values) const;

  Doubles q, k, v, dout;
  reference::AttentionResult result;
  reference::AttentionGrads grads;

 private:
  Doubles Mask() const;
  void MakeDocuments();
  // Results of tokens [begin, end) of a sample, which are a document.
  void AddDocument(int64_t sample, int64_t begin, int64_t end, const Doubles& mask);

  DType dtype_;
  reference::AttentionShape shape_;
  int num_ranks_;
  WholeAttentionOptions options_;
  std::vector<int32_t> document_starts_;
  Doubles subtracted_from_dq_;
};

}  // namespace tessera::kernels::testing
