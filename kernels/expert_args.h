// Arguments of the operations of mixtures of experts; types as in op_args.h. A routed row is a
// token on its way to one of its experts.
//
// The router's product forms fp32 logits of operands of the compute type (MatMul takes such a c),
// its gradient comes in the compute type, as the products that read it want one type of operands.
// Softmax and choice are fp32 throughout.
#pragma once

#include <cstdint>

#include "cost_model/base/op.h"
#include "kernels/array.h"

namespace tessera::kernels {

// A product for each of num_groups groups of rows, which lie one after the other and may be empty,
// with a weight matrix (kTN: a gradient) of its own. All arrays dense; rows is the sum of
// group_rows:
//   kNT  c_g[rows_g, n]  = a_g[rows_g, k] b_g[n, k]^T      m = rows
//   kNN  c_g[rows_g, n]  = a_g[rows_g, k] b_g[k, n]        m = rows
//   kTN  c_g[m, n]      += a_g[rows_g, m]^T b_g[rows_g, n]  k = rows
// Without rows nothing is read or written.
struct GroupedMatMulArgs {
  ConstArray a;
  ConstArray b;
  Array c;                              // kTN: accumulates
  const int64_t* group_rows = nullptr;  // [num_groups], host memory, read before the call returns
  int64_t num_groups = 0;
  int64_t m = 0, n = 0, k = 0;
  int64_t group_stride =
      0;  // elements between the matrices of neighbouring groups: b's, of kTN c's
  base::MatMulLayout layout = base::MatMulLayout::kNT;
  base::Epilogue epilogue = base::Epilogue::kNone;  // kNone, kBias
  ConstArray bias;                                  // [n] for each group; kBias only
  int64_t bias_stride = 0;                          // elements between the biases of groups
};

// dbias_g[j] += sum over the group's rows of dy[i, j].
struct GroupedBiasGradArgs {
  ConstArray dy;                        // [num_rows, width]
  Array dbias;                          // [width] for each group, accumulates
  const int64_t* group_rows = nullptr;  // [num_groups], host memory, read before the call returns
  int64_t num_groups = 0;
  int64_t num_rows = 0, width = 0;  // num_rows: the sum of group_rows
  int64_t bias_stride = 0;          // elements between the biases of neighbouring groups
};

// Softmax over the experts, and each row's num_chosen experts of the largest logits: the largest
// first, of equal ones that of the lower index. weight: their probabilities, with `normalize`
// divided by their sum (Mixtral, arXiv:2401.04088; without it Switch, arXiv:2101.03961 eq. 2). A
// row with a NaN gets NaN weights and still num_chosen different experts.
struct RouterForwardArgs {
  ConstArray logits;    // fp32 [num_rows, num_experts]
  Array probabilities;  // fp32 [num_rows, num_experts]; may alias logits
  Array log_sum_exp;    // fp32 [num_rows]: of the logits
  Array chosen;         // int32 [num_rows, num_chosen]
  Array weight;         // fp32 [num_rows, num_chosen]
  int64_t num_rows = 0, num_experts = 0, num_chosen = 0;
  bool normalize = true;
};

// counts[s, e] = how many of the rows here that belong to sequence s chose expert e. Row r belongs
// to sequence (first_row + r) / sequence. The counts of a sequence of which several ranks hold
// parts add up over the ranks.
struct ExpertCountArgs {
  ConstArray chosen;  // int32 [num_rows, num_chosen]
  Array counts;       // fp32 [num_sequences, num_experts], all overwritten
  int64_t num_rows = 0, num_experts = 0, num_chosen = 0;
  int64_t first_row = 0, sequence = 0, num_sequences = 0;
};

// The gradient of RouterForward, and two losses that depend on the router alone; both, and their
// gradients, as sums over tokens like the language loss, scaled by grad_scale like it:
//   balance  balance_coefficient * sum over e of f_e p_e for each token, with f_e = num_experts /
//            (num_chosen * sequence_tokens) * counts[its sequence, e]: over the tokens of a
//            sequence its sequence-wise loss (DeepSeek-V3, arXiv:2412.19437 eq. 17-20, there
//            normalised to sequence_tokens = T) times T. counts have no gradient. As a token's
//            share depends on its own probabilities and on counts alone, shares of ranks add up to
//            the loss of the whole.
//   z        z_coefficient * log_sum_exp^2 for each token (ST-MoE, arXiv:2202.08906 eq. 5).
// dlogits = dweight through the weights + grad_scale * (gradients of both).
struct RouterBackwardArgs {
  ConstArray probabilities;  // fp32 [num_rows, num_experts]
  ConstArray log_sum_exp;    // fp32 [num_rows]
  ConstArray chosen;         // int32 [num_rows, num_chosen]
  ConstArray weight;         // fp32 [num_rows, num_chosen]
  ConstArray dweight;        // fp32 [num_rows, num_chosen]; 0 where no expert took the copy
  ConstArray counts;         // fp32 [num_sequences, num_experts] over all ranks; absent: no balance
  Array dlogits;             // fp32 or compute type [num_rows, num_experts]
  double* balance_loss_sum = nullptr;  // device memory, accumulates; absent with counts
  double* z_loss_sum = nullptr;        // device memory, accumulates; absent: no z loss
  int64_t num_rows = 0, num_experts = 0, num_chosen = 0;
  int64_t first_row = 0, sequence = 0;  // as in ExpertCountArgs
  int64_t sequence_tokens = 0;          // of a whole sequence, over all ranks
  bool normalize = true;
  float balance_coefficient = 0, z_coefficient = 0;
  float grad_scale = 1;
};

// What a probability of expert e adds to the balance loss for each row that chose e: 0 without
// counts.
inline float BalanceSlope(const RouterBackwardArgs& args) {
  if (!args.counts) return 0;
  return static_cast<float>(static_cast<double>(args.balance_coefficient) *
                            static_cast<double>(args.num_experts) /
                            static_cast<double>(args.num_chosen * args.sequence_tokens));
}

// y = gelu(x) * row_weight, tanh approximation.
struct WeightedGeluForwardArgs {
  ConstArray x;           // [num_rows, width]
  ConstArray row_weight;  // fp32 [num_rows]
  Array y;                // [num_rows, width]; may alias x
  int64_t num_rows = 0, width = 0;
};

// dx = dy * row_weight * gelu'(x); dweight[i] = sum over j of dy[i, j] * gelu(x[i, j]).
struct WeightedGeluBackwardArgs {
  ConstArray dy;          // [num_rows, width]
  ConstArray x;           // [num_rows, width]
  ConstArray row_weight;  // fp32 [num_rows]
  Array dx;               // [num_rows, width]; may alias x or dy
  Array dweight;          // fp32 [num_rows], overwritten
  int64_t num_rows = 0, width = 0;
};

}  // namespace tessera::kernels
