// The router of a mixture of experts: choice, probabilities, their gradient, losses of its own.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/vector_math.h"
#include "kernels/expert_order.h"

namespace tessera::kernels {
namespace {

void Choose(const float* logits, int64_t num_experts, int64_t num_chosen, int32_t* chosen) {
  uint64_t last = kAboveAllExperts;
  for (int64_t j = 0; j < num_chosen; ++j) {
    uint64_t best = 0;
    for (int64_t expert = 0; expert < num_experts; ++expert) {
      const uint64_t key = ExpertKey(logits[expert], expert);
      if (key < last) best = std::max(best, key);
    }
    chosen[j] = ExpertOfKey(best);
    last = best;
  }
}

// Returns the log-sum-exp, given the largest logit.
float Softmax(const float* logits, float max, int64_t n, float* probabilities) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) {
    probabilities[i] = Exp(logits[i] - max);
    sum += probabilities[i];
  }
  for (int64_t i = 0; i < n; ++i) probabilities[i] /= sum;
  return max + std::log(sum);
}

float SumOfChosen(const float* probabilities, const int32_t* chosen, int64_t num_chosen) {
  float sum = 0;
  for (int64_t j = 0; j < num_chosen; ++j) sum += probabilities[chosen[j]];
  return sum;
}

// One row of the backward pass.
struct RouterRow {
  const float* probabilities;
  const int32_t* chosen;
  const float* weight;
  const float* dweight;
};

// Adds to dprobability what comes through the weights. Of w_j = p_j / S, S the sum over the chosen:
// dp_j = (dw_j - sum over i of dw_i w_i) / S.
void AddWeightGradient(const RouterRow& row, int64_t num_chosen, bool normalize,
                       float* dprobability) {
  float mean = 0;
  float sum = 1;
  if (normalize) {
    for (int64_t j = 0; j < num_chosen; ++j) mean += row.dweight[j] * row.weight[j];
    sum = SumOfChosen(row.probabilities, row.chosen, num_chosen);
  }
  for (int64_t j = 0; j < num_chosen; ++j) {
    dprobability[row.chosen[j]] += (row.dweight[j] - mean) / sum;
  }
}

// dl_e = p_e (dp_e - sum over f of p_f dp_f + z_slope), in place.
void SoftmaxGradient(const float* probabilities, float z_slope, int64_t n, float* gradient) {
  float mean = 0;
#pragma omp simd reduction(+ : mean)
  for (int64_t i = 0; i < n; ++i) mean += probabilities[i] * gradient[i];
  const float shift = z_slope - mean;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) gradient[i] = probabilities[i] * (gradient[i] + shift);
}

}  // namespace

void CpuBackend::DoRouterForward(const RouterForwardArgs& args) {
  const int64_t n = args.num_experts, k = args.num_chosen;
  const float* const logits = args.logits.As<float>();
  float* const probabilities = args.probabilities.As<float>();
  float* const log_sum_exp = args.log_sum_exp.As<float>();
  int32_t* const chosen = args.chosen.As<int32_t>();
  float* const weight = args.weight.As<float>();
  pool_.ForRanges(args.num_rows, RowGrain(n * (k + 1)), kLineFloats,
                  [&](int64_t begin, int64_t end) {
                    for (int64_t row = begin; row < end; ++row) {
                      const float* const x = logits + row * n;
                      int32_t* const experts = chosen + row * k;
                      Choose(x, n, k, experts);
                      float* const p = probabilities + row * n;
                      log_sum_exp[row] = Softmax(x, x[experts[0]], n, p);
                      const float sum = args.normalize ? SumOfChosen(p, experts, k) : 1.0F;
                      for (int64_t j = 0; j < k; ++j) weight[row * k + j] = p[experts[j]] / sum;
                    }
                  });
}

void CpuBackend::DoExpertCount(const ExpertCountArgs& args) {
  const int32_t* const chosen = args.chosen.As<int32_t>();
  float* const counts = args.counts.As<float>();
  std::fill_n(counts, args.num_sequences * args.num_experts, 0.0F);
  for (int64_t row = 0; row < args.num_rows; ++row) {
    float* const of_sequence = counts + (args.first_row + row) / args.sequence * args.num_experts;
    for (int64_t j = 0; j < args.num_chosen; ++j) {
      of_sequence[chosen[row * args.num_chosen + j]] += 1.0F;
    }
  }
}

void CpuBackend::DoRouterBackward(const RouterBackwardArgs& args) {
  const int64_t n = args.num_experts, k = args.num_chosen;
  const float* const probabilities = args.probabilities.As<float>();
  const float* const log_sum_exp = args.log_sum_exp.As<float>();
  const float* const counts = args.counts.As<float>();
  const float balance_slope = BalanceSlope(args);
  const float z_coefficient = args.z_loss_sum == nullptr ? 0.0F : args.z_coefficient;
  float* const balance_loss = shared_scratch_.Get(args.num_rows);
  pool_.ForRanges(args.num_rows, RowGrain(n), kLineElements, [&](int64_t begin, int64_t end) {
    RowWriter dlogits;
    for (int64_t row = begin; row < end; ++row) {
      const float* const p = probabilities + row * n;
      float* const gradient = dlogits.Open(args.dlogits.At(row * n), n);
      std::fill_n(gradient, n, 0.0F);
      if (counts != nullptr) {
        const float* const count = counts + (args.first_row + row) / args.sequence * n;
        float sum = 0;
        for (int64_t i = 0; i < n; ++i) sum += count[i] * p[i];
        balance_loss[row] = balance_slope * sum;
        for (int64_t i = 0; i < n; ++i) gradient[i] = args.grad_scale * balance_slope * count[i];
      }
      AddWeightGradient({p, args.chosen.As<int32_t>() + row * k, args.weight.As<float>() + row * k,
                         args.dweight.As<float>() + row * k},
                        k, args.normalize, gradient);
      SoftmaxGradient(p, args.grad_scale * z_coefficient * 2 * log_sum_exp[row], n, gradient);
      dlogits.Store();
    }
  });
  double balance_sum = 0;
  double z_sum = 0;
  for (int64_t row = 0; row < args.num_rows; ++row) {
    if (counts != nullptr) balance_sum += balance_loss[row];
    z_sum += z_coefficient * std::pow(static_cast<double>(log_sum_exp[row]), 2);
  }
  if (args.balance_loss_sum != nullptr) *args.balance_loss_sum += balance_sum;
  if (args.z_loss_sum != nullptr) *args.z_loss_sum += z_sum;
}

}  // namespace tessera::kernels
