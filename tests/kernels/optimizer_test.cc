#include "tests/kernels/device_array.h"

namespace tessera::kernels::testing {
namespace {

TEST(SumOfSquaresTest, AddsInDoubleAndAlikeForEveryNumberOfThreads) {
  for (const int64_t n : {1, 7, 65536, 200001}) {
    const Floats x_values = RandomFloats(n, 1, -1000, 1000);
    double expected = 3;
    for (const float value : x_values) expected += static_cast<double>(value) * value;
    std::vector<double> sums;
    for (const int num_threads : {1, 2, 3}) {
      const auto backend = MakeCpuBackend(num_threads);
      const DeviceFloats x(*backend, x_values);
      double sum = 3;
      backend->SumOfSquares({.x = x, .sum = &sum, .n = n});
      EXPECT_NEAR(sum, expected, 1e-12 * expected);
      sums.push_back(sum);
    }
    EXPECT_EQ(sums[0], sums[1]);
    EXPECT_EQ(sums[0], sums[2]);
  }
}

struct State {
  double param, m, v;
};

// Algorithm 2 of Loshchilov & Hutter 2019 (arXiv:1711.05101), one element, one step. The factors
// are the floats that the kernel gets.
void StepReference(const AdamWArgs& args, double grad, State& state) {
  const double g = grad * args.grad_scale;
  const double beta1 = args.beta1, beta2 = args.beta2;
  state.m = beta1 * state.m + (1 - beta1) * g;
  state.v = beta2 * state.v + (1 - beta2) * g * g;
  const double m_hat = state.m / (1 - std::pow(beta1, static_cast<double>(args.step)));
  const double v_hat = state.v / (1 - std::pow(beta2, static_cast<double>(args.step)));
  state.param -=
      args.lr * (m_hat / (std::sqrt(v_hat) + args.epsilon) + args.weight_decay * state.param);
}

TEST(AdamWTest, TenStepsFollowTheReference) {
  for (const int num_threads : kThreadCounts) {
    const auto backend = MakeCpuBackend(num_threads);
    for (const int64_t n : {1, 257, 50001}) {
      const Floats start = RandomFloats(n, 1);
      std::vector<State> expected(n);
      for (int64_t i = 0; i < n; ++i) expected[i] = {start[i], 0, 0};
      const DeviceFloats param(*backend, start), m(*backend, Floats(n)), v(*backend, Floats(n));
      for (int64_t step = 1; step <= 10; ++step) {
        const Floats grads = RandomFloats(n, static_cast<uint32_t>(100 + step), -0.1F, 0.1F);
        const DeviceFloats grad(*backend, grads);
        const AdamWArgs args{.param = param,
                             .grad = grad,
                             .m = m,
                             .v = v,
                             .n = n,
                             .lr = 1e-2F,
                             .beta1 = 0.9F,
                             .beta2 = 0.95F,
                             .epsilon = 1e-8F,
                             .weight_decay = 0.1F,
                             .grad_scale = 0.5F,
                             .step = step};
        backend->AdamW(args);
        for (int64_t i = 0; i < n; ++i) StepReference(args, grads[i], expected[i]);
      }
      Doubles params, first, second;
      for (const State& state : expected) {
        params.push_back(state.param);
        first.push_back(state.m);
        second.push_back(state.v);
      }
      // Ten steps of some five roundings each.
      ExpectNear(param.Values(), params, 3e-6, base::Concat("param, n ", n));
      ExpectNear(m.Values(), first, 3e-6, base::Concat("m, n ", n), 0);
      ExpectNear(v.Values(), second, 3e-6, base::Concat("v, n ", n), 0);
    }
  }
}

// The first step moves every element by lr against the sign of its gradient, whatever its size.
TEST(AdamWTest, TheFirstStepHasTheLengthOfTheLearningRate) {
  const auto backend = MakeCpuBackend(1);
  const DeviceFloats param(*backend, Floats(3)), grad(*backend, Floats{1e-3F, -5, 100});
  const DeviceFloats m(*backend, Floats(3)), v(*backend, Floats(3));
  backend->AdamW({.param = param,
                  .grad = grad,
                  .m = m,
                  .v = v,
                  .n = 3,
                  .lr = 0.01F,
                  .beta1 = 0.9F,
                  .beta2 = 0.999F,
                  .epsilon = 1e-12F,
                  .step = 1});
  ExpectNear(param.Values(), {-0.01, 0.01, -0.01}, 1e-6, "param");
}

}  // namespace
}  // namespace tessera::kernels::testing
