#include <cmath>

#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/rows.h"

namespace tessera::kernels {
namespace {

double SumOfSquaresOf(const float* x, int64_t n) {
  double sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i]) * x[i];
  return sum;
}

// Elements whose squares are added as one sum; fixed, so that the order of additions is too.
constexpr int64_t kSquareSumBlock = 65536;

// The constants of one AdamW step, worked out in double.
struct AdamWStep {
  float keep = 0;             // 1 - lr * weight_decay
  float step_size = 0;        // lr / (1 - beta1^step)
  float root_correction = 0;  // 1 / sqrt(1 - beta2^step)
};

AdamWStep MakeStep(const AdamWArgs& args) {
  const auto step = static_cast<double>(args.step);
  const double correction1 = 1.0 - std::pow(static_cast<double>(args.beta1), step);
  const double correction2 = 1.0 - std::pow(static_cast<double>(args.beta2), step);
  return {static_cast<float>(1.0 - static_cast<double>(args.lr) * args.weight_decay),
          static_cast<float>(args.lr / correction1),
          static_cast<float>(1.0 / std::sqrt(correction2))};
}

// Elements [begin, begin + n) of the moments, and of the weights `param`.
void UpdateElements(const AdamWArgs& args, const AdamWStep& step, const float* grad, float* param,
                    int64_t begin, int64_t n) {
  float* const first_moment = args.m.As<float>() + begin;
  float* const second_moment = args.v.As<float>() + begin;
  const float beta1 = args.beta1;
  const float beta2 = args.beta2;
  const float one_minus_beta1 = static_cast<float>(1.0 - static_cast<double>(beta1));
  const float one_minus_beta2 = static_cast<float>(1.0 - static_cast<double>(beta2));
  const float epsilon = args.epsilon;
  const float grad_scale = args.grad_scale;
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const float g = grad[i] * grad_scale;
    const float m = beta1 * first_moment[i] + one_minus_beta1 * g;
    const float v = beta2 * second_moment[i] + one_minus_beta2 * g * g;
    first_moment[i] = m;
    second_moment[i] = v;
    const float denominator = std::sqrt(v) * step.root_correction + epsilon;
    param[i] = param[i] * step.keep - step.step_size * (m / denominator);
  }
}

void UpdateRange(const AdamWArgs& args, const AdamWStep& step, int64_t begin, int64_t end) {
  RowReader grad;
  float* const weights = args.master ? args.master.As<float>() : args.param.As<float>();
  ForChunks(begin, end, [&](int64_t first, int64_t count) {
    UpdateElements(args, step, grad.Read(args.grad.At(first), count), weights + first, first,
                   count);
    if (args.master) StoreFloats(weights + first, args.param.At(first), count);
  });
}

}  // namespace

void CpuBackend::DoSumOfSquares(const SumOfSquaresArgs& args) {
  const int64_t num_blocks = base::CeilDiv(args.n, kSquareSumBlock);
  std::vector<double> sums(num_blocks);
  pool_.ForEachTask(num_blocks, [&](int thread, int64_t block) {
    const int64_t begin = block * kSquareSumBlock;
    const int64_t count = std::min(args.n - begin, kSquareSumBlock);
    const float* const x = thread_memory_[thread].a.Read(args.x.At(begin), count);
    sums[block] = SumOfSquaresOf(x, count);
  });
  for (const double sum : sums) *args.sum += sum;
}

void CpuBackend::DoAdamW(const AdamWArgs& args) {
  const AdamWStep step = MakeStep(args);
  pool_.ForRanges(args.n, kElementGrain, kLineFloats,
                  [&](int64_t begin, int64_t end) { UpdateRange(args, step, begin, end); });
}

}  // namespace tessera::kernels
