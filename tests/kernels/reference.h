// Every operation once more, in double and as its formula reads: what the kernels are held against.
// Arrays are dense and row-major.
#pragma once

#include <cstdint>
#include <vector>

#include "cost_model/base/op.h"

namespace tessera::kernels::reference {

using Doubles = std::vector<double>;

// c[m, n] = op(a) op(b); operands dense as the layout stores them.
Doubles MatMul(base::MatMulLayout layout, int64_t m, int64_t n, int64_t k, const Doubles& a,
               const Doubles& b);

double Gelu(double x);
double GeluGrad(double x);

enum class NormKind { kLayerNorm, kRmsNorm };

struct NormForward {
  Doubles y, mean, rstd;
};
NormForward Norm(NormKind kind, int64_t num_rows, int64_t width, const Doubles& x,
                 const Doubles& gamma, const Doubles& beta, double epsilon);

struct NormGrads {
  Doubles dx, dgamma, dbeta;
};
NormGrads NormBackward(NormKind kind, int64_t num_rows, int64_t width, const Doubles& dy,
                       const Doubles& x, const Doubles& gamma, double epsilon);

// y[num_rows, width] of gate_up[num_rows, 2 * width].
Doubles SwiGlu(int64_t num_rows, int64_t width, const Doubles& gate_up);
Doubles SwiGluBackward(int64_t num_rows, int64_t width, const Doubles& dy, const Doubles& gate_up);

// x[num_rows, num_heads, head_dim] turned by position * inverse_frequency * direction.
Doubles Rope(int64_t num_rows, int64_t sequence, int64_t num_heads, int64_t head_dim,
             const Doubles& x, const Doubles& inverse_frequency, double direction);

struct AttentionShape {
  int64_t batch = 1, sequence = 1, num_heads = 1, num_kv_heads = 1, head_dim = 1;
  double scale = 1;

  int64_t NumRows() const { return batch * sequence; }
  int64_t QueryWidth() const { return num_heads * head_dim; }
  int64_t KeyWidth() const { return num_kv_heads * head_dim; }
};
struct AttentionResult {
  Doubles out;            // [batch * sequence, num_heads, head_dim]
  Doubles log_sum_exp;    // [batch, num_heads, sequence]
  Doubles probabilities;  // [batch, num_heads, sequence, sequence]
};
// `mask`: a factor of each probability, as these lie, after the softmax; empty: ones.
AttentionResult Attention(const AttentionShape& shape, const Doubles& q, const Doubles& k,
                          const Doubles& v, const Doubles& mask = {});
// Over the keys [first_key, end_key) alone: what a rank of a ring computes. A query that sees none
// of them has out 0 and log-sum-exp -infinity.
AttentionResult AttentionOverKeys(const AttentionShape& shape, const Doubles& q, const Doubles& k,
                                  const Doubles& v, int64_t first_key, int64_t end_key,
                                  const Doubles& mask = {});

struct AttentionGrads {
  Doubles dq, dk, dv;
};
AttentionGrads AttentionBackward(const AttentionShape& shape, const Doubles& dout, const Doubles& q,
                                 const Doubles& k, const Doubles& v, const Doubles& mask = {});

// Softmax cross-entropy over the first num_valid columns; the gradient is of the sum of losses.
struct CrossEntropyResult {
  Doubles loss, dlogits;
};
CrossEntropyResult CrossEntropy(int64_t num_rows, int64_t num_columns, int64_t num_valid,
                                const Doubles& logits, const std::vector<int32_t>& labels);

// out[num_rows, width]: row source_row[r] of x times scale[r], zeros where it is negative.
Doubles TokenPermute(int64_t width, const Doubles& x, const std::vector<int32_t>& source_row,
                     const Doubles& scale);

// out[num_tokens, width]: the sum over each token's copies of row routed_row[t, j] of x times
// weight[t, j], without those that are negative.
Doubles TokenUnpermute(int64_t width, int64_t copies, const Doubles& x,
                       const std::vector<int32_t>& routed_row, const Doubles& weight);

}  // namespace tessera::kernels::reference
