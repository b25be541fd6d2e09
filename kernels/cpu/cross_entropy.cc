#include <cmath>
#include <limits>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/vector_math.h"

namespace tessera::kernels {
namespace {

float MaxOf(const float* x, int64_t n) {
  float max = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : max)
  for (int64_t j = 0; j < n; ++j) max = x[j] > max ? x[j] : max;
  return max;
}

// Long rows are summed in float blocks that are added in double.
constexpr int64_t kExpSumBlock = 4096;

float SumExp(const float* x, float max, int64_t n) {
  double sum = 0;
  for (int64_t first = 0; first < n; first += kExpSumBlock) {
    const int64_t last = std::min(n, first + kExpSumBlock);
    float block_sum = 0;
#pragma omp simd reduction(+ : block_sum)
    for (int64_t j = first; j < last; ++j) block_sum += Exp(x[j] - max);
    sum += block_sum;
  }
  return static_cast<float>(sum);
}

// Column of a label on this rank, or -1 where another rank holds it.
int64_t LocalColumn(int32_t label, int64_t vocab_begin, int64_t num_valid) {
  const int64_t column = label - vocab_begin;
  return column >= 0 && column < num_valid ? column : -1;
}

}  // namespace

void CpuBackend::DoCrossEntropyMax(const CrossEntropyMaxArgs& args) {
  float* const max = args.max.As<float>();
  pool_.ForRanges(args.num_rows, RowGrain(args.num_columns), 1, [&](int64_t begin, int64_t end) {
    RowReader logits;
    for (int64_t row = begin; row < end; ++row) {
      const float* const x = logits.Read(args.logits.At(row * args.num_columns), args.num_valid);
      max[row] = MaxOf(x, args.num_valid);
    }
  });
}

void CpuBackend::DoCrossEntropySumExp(const CrossEntropySumExpArgs& args) {
  const int32_t* const labels = args.labels.As<int32_t>();
  const float* const max = args.max.As<float>();
  float* const sum_exp = args.sum_exp.As<float>();
  float* const target_logit = args.target_logit.As<float>();
  pool_.ForRanges(args.num_rows, RowGrain(args.num_columns), 1, [&](int64_t begin, int64_t end) {
    RowReader logits;
    for (int64_t row = begin; row < end; ++row) {
      const float* const x = logits.Read(args.logits.At(row * args.num_columns), args.num_valid);
      const int64_t column = LocalColumn(labels[row], args.vocab_begin, args.num_valid);
      sum_exp[row] = SumExp(x, max[row], args.num_valid);
      target_logit[row] = column >= 0 ? x[column] - max[row] : 0.0F;
    }
  });
}

void CpuBackend::DoCrossEntropyGrad(const CrossEntropyGradArgs& args) {
  const int32_t* const labels = args.labels.As<int32_t>();
  const float* const max = args.max.As<float>();
  const float* const sum_exp = args.sum_exp.As<float>();
  const float* const target_logit = args.target_logit.As<float>();
  float* const loss = args.loss.As<float>();
  pool_.ForRanges(args.num_rows, RowGrain(args.num_columns), 1, [&](int64_t begin, int64_t end) {
    RowWriter logits;
    for (int64_t row = begin; row < end; ++row) {
      float* const x = logits.Load(args.logits.At(row * args.num_columns), args.num_columns);
      const float row_max = max[row];
      const bool counts = labels[row] >= 0;
      const float factor = counts ? args.grad_scale / sum_exp[row] : 0.0F;
#pragma omp simd
      for (int64_t j = 0; j < args.num_valid; ++j) x[j] = Exp(x[j] - row_max) * factor;
      std::fill(x + args.num_valid, x + args.num_columns, 0.0F);
      const int64_t column = LocalColumn(labels[row], args.vocab_begin, args.num_valid);
      if (column >= 0) x[column] -= args.grad_scale;
      logits.Store();
      loss[row] = counts ? std::log(sum_exp[row]) - target_logit[row] : 0.0F;
    }
  });
  double sum = 0;
  for (int64_t row = 0; row < args.num_rows; ++row) sum += loss[row];
  *args.loss_sum += sum;
}

}  // namespace tessera::kernels
