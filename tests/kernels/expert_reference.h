// The router of a mixture of experts in double, as its formulas read: what the kernels are held
// against, on every device.
#pragma once

#include <cstdint>
#include <vector>

#include "tests/kernels/reference.h"

namespace tessera::kernels::reference {

struct RouterShape {
  int64_t num_rows = 0, num_experts = 0, num_chosen = 0;
  bool normalize = true;
};
struct RouterResult {
  Doubles probabilities;        // [num_rows, num_experts]
  Doubles log_sum_exp;          // [num_rows]
  std::vector<int32_t> chosen;  // [num_rows, num_chosen], by a stable sort of the logits
  Doubles weight;               // [num_rows, num_chosen]
};
RouterResult Router(const RouterShape& shape, const Doubles& logits);

// [num_sequences, num_experts] of whole sequences of `sequence` rows.
Doubles ExpertCounts(const RouterShape& shape, int64_t sequence, const RouterResult& router);

// Losses of the router alone, sums over tokens.
struct RouterLosses {
  double balance = 0, z = 0;
};
struct RouterLossSpec {
  int64_t sequence = 0;  // rows, a divisor of num_rows
  double balance_coefficient = 0, z_coefficient = 0;
};
// For each sequence of T rows T alpha sum over i of f_i P_i, with f_i = N / (K T) * (rows that
// chose i) and P_i the mean of the rows' probabilities of i (DeepSeek-V3, arXiv:2412.19437 eq.
// 17-20); and beta (log sum exp)^2 for each row (ST-MoE, arXiv:2202.08906 eq. 5).
RouterLosses AuxiliaryLosses(const RouterShape& shape, const RouterLossSpec& spec,
                             const Doubles& logits);

// The gradient of <weight, dweight> + grad_scale * (both losses) by the logits, choices held fixed.
Doubles RouterBackward(const RouterShape& shape, const RouterLossSpec& spec, const Doubles& logits,
                       const Doubles& dweight, double grad_scale);

}  // namespace tessera::kernels::reference
