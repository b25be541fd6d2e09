#include "tests/kernels/expert_reference.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace tessera::kernels::reference {

RouterResult Router(const RouterShape& shape, const Doubles& logits) {
  const int64_t n = shape.num_experts, k = shape.num_chosen;
  RouterResult result{Doubles(shape.num_rows * n), Doubles(shape.num_rows), {}, {}};
  for (int64_t row = 0; row < shape.num_rows; ++row) {
    const double* const x = &logits[row * n];
    double* const p = &result.probabilities[row * n];
    const double max = *std::max_element(x, x + n);
    double sum = 0;
    for (int64_t i = 0; i < n; ++i) sum += std::exp(x[i] - max);
    for (int64_t i = 0; i < n; ++i) p[i] = std::exp(x[i] - max) / sum;
    result.log_sum_exp[row] = max + std::log(sum);
    std::vector<int32_t> order(n);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int32_t a, int32_t b) { return x[a] > x[b]; });
    double chosen_sum = 0;
    for (int64_t j = 0; j < k; ++j) chosen_sum += p[order[j]];
    for (int64_t j = 0; j < k; ++j) {
      result.chosen.push_back(order[j]);
      result.weight.push_back(p[order[j]] / (shape.normalize ? chosen_sum : 1));
    }
  }
  return result;
}

Doubles ExpertCounts(const RouterShape& shape, int64_t sequence, const RouterResult& router) {
  Doubles counts(shape.num_rows / sequence * shape.num_experts, 0.0);
  for (size_t i = 0; i < router.chosen.size(); ++i) {
    const int64_t row = static_cast<int64_t>(i) / shape.num_chosen;
    counts[row / sequence * shape.num_experts + router.chosen[i]] += 1;
  }
  return counts;
}

RouterLosses AuxiliaryLosses(const RouterShape& shape, const RouterLossSpec& spec,
                             const Doubles& logits) {
  const RouterResult router = Router(shape, logits);
  const Doubles counts = ExpertCounts(shape, spec.sequence, router);
  const auto tokens = static_cast<double>(spec.sequence);
  RouterLosses losses;
  for (int64_t begin = 0; begin < shape.num_rows; begin += spec.sequence) {
    for (int64_t i = 0; i < shape.num_experts; ++i) {
      double mean = 0;
      for (int64_t row = begin; row < begin + spec.sequence; ++row) {
        mean += router.probabilities[row * shape.num_experts + i] / tokens;
      }
      const double fraction = static_cast<double>(shape.num_experts) /
                              (static_cast<double>(shape.num_chosen) * tokens) *
                              counts[begin / spec.sequence * shape.num_experts + i];
      losses.balance += tokens * spec.balance_coefficient * fraction * mean;
    }
  }
  for (const double log_sum_exp : router.log_sum_exp) {
    losses.z += spec.z_coefficient * log_sum_exp * log_sum_exp;
  }
  return losses;
}

Doubles RouterBackward(const RouterShape& shape, const RouterLossSpec& spec, const Doubles& logits,
                       const Doubles& dweight, double grad_scale) {
  const int64_t n = shape.num_experts, k = shape.num_chosen;
  const RouterResult router = Router(shape, logits);
  const Doubles counts = ExpertCounts(shape, spec.sequence, router);
  const double slope =
      spec.balance_coefficient * static_cast<double>(n) / static_cast<double>(k * spec.sequence);
  Doubles dlogits(logits.size(), 0.0);
  for (int64_t row = 0; row < shape.num_rows; ++row) {
    const double* const p = &router.probabilities[row * n];
    const int32_t* const chosen = &router.chosen[row * k];
    Doubles dp(n);
    for (int64_t i = 0; i < n; ++i) {
      dp[i] = grad_scale * slope * counts[row / spec.sequence * n + i];
    }
    double sum = 0;
    for (int64_t j = 0; j < k; ++j) sum += p[chosen[j]];
    // d(p_j / S) / d p_i = (i = j) / S - p_j / S^2.
    for (int64_t j = 0; j < k; ++j) {
      const double dw = dweight[row * k + j];
      dp[chosen[j]] += shape.normalize ? dw / sum : dw;
      if (!shape.normalize) continue;
      for (int64_t i = 0; i < k; ++i) dp[chosen[i]] -= dw * p[chosen[j]] / (sum * sum);
    }
    // d p_i / d l_e = p_i ((i = e) - p_e).
    for (int64_t e = 0; e < n; ++e) {
      double& gradient = dlogits[row * n + e];
      for (int64_t i = 0; i < n; ++i) gradient += dp[i] * p[i] * ((i == e ? 1 : 0) - p[e]);
      gradient += grad_scale * spec.z_coefficient * 2 * router.log_sum_exp[row] * p[e];
    }
  }
  return dlogits;
}

}  // namespace tessera::kernels::reference
