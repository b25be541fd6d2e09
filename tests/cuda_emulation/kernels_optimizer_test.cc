// The norm of the gradient and AdamW on the device.
#include <cmath>

#include "cost_model/base/check.h"
#include "tests/cuda_emulation/typed_device.h"

namespace tessera::kernels::cuda::testing {
namespace {

constexpr int64_t kOptimizerCounts[] = {1, 7, 33, 257, 1000, 1032, 40003};

class OptimizerKernelTest : public KernelTest {
 protected:
  Doubles SumOf(const Doubles& x, int64_t offset, double before) {
    return InAllOrders([&]() -> std::vector<Doubles> {
      const DeviceArray device_x = Upload(x, offset);
      const DeviceMemory<double> sum({before});
      SumOfSquares(stream(),
                   {.x = device_x, .sum = sum.data(), .n = static_cast<int64_t>(x.size())});
      return {sum.Values()};
    })[0];
  }

  void ExpectAdamW(int64_t n, bool has_master, int64_t step, int64_t offset);
};

TEST_P(OptimizerKernelTest, SquaresAccumulateInDouble) {
  for (const int64_t n : kOptimizerCounts) {
    const Doubles x = Random(n, 1);
    double expected = 0.125;
    for (const double value : x) expected += value * value;
    const Doubles found = SumOf(x, 0, 0.125);
    EXPECT_NEAR(found[0], expected, 1e-13 * expected) << n;
    EXPECT_EQ(SumOf(x, 1, 0.125), found)
        << "the order of additions hangs on the place of the array";
  }
}

// Squares beyond the range of fp32, or close to the largest of fp16.
TEST_P(OptimizerKernelTest, SquaresDoNotOverflow) {
  const double large = dtype() == DType::kFloat16 ? 6e4 : 1e30;
  const Doubles x = Rounded(dtype(), {large, 1.0 / large, -large / 2.0});
  const double expected = x[0] * x[0] + x[1] * x[1] + x[2] * x[2];
  EXPECT_NEAR(SumOf(x, 0, 0.0)[0], expected, 1e-13 * expected);
}

TEST_P(OptimizerKernelTest, NoElementsHaveNoSquares) {
  const DeviceMemory<double> sum({2.5});
  SumOfSquares(stream(), {.x = nullptr, .sum = sum.data(), .n = 0});
  EXPECT_EQ(sum.Values()[0], 2.5);
}

struct Hyperparameters {
  float lr = 0.1F, beta1 = 0.9F, beta2 = 0.95F, epsilon = 1e-6F, weight_decay = 0.3F;
  float grad_scale = 0.5F;
};

// Loshchilov & Hutter 2019, in double; p, m and v are updated.
void ReferenceAdamW(const Hyperparameters& h, int64_t step, const Doubles& grad, Doubles& p,
                    Doubles& m, Doubles& v) {
  const auto power = static_cast<double>(step);
  for (size_t i = 0; i < p.size(); ++i) {
    const double g = grad[i] * h.grad_scale;
    m[i] = h.beta1 * m[i] + (1.0 - h.beta1) * g;
    v[i] = h.beta2 * v[i] + (1.0 - h.beta2) * g * g;
    const double m_hat = m[i] / (1.0 - std::pow(double{h.beta1}, power));
    const double v_hat = v[i] / (1.0 - std::pow(double{h.beta2}, power));
    p[i] -= h.lr * (m_hat / (std::sqrt(v_hat) + h.epsilon) + h.weight_decay * p[i]);
  }
}

void OptimizerKernelTest::ExpectAdamW(int64_t n, bool has_master, int64_t step, int64_t offset) {
  const Hyperparameters h;
  const auto random = [n](uint32_t seed, double low = -1) {
    return Rounded(DType::kFloat32, RandomDoubles(n, seed, low, 1));
  };
  Doubles weights = has_master ? random(1) : Random(n, 1);
  const Doubles grad = random(2);
  Doubles m = random(3), v = random(4, 0.01);
  const auto found = InAllOrders([&]() -> std::vector<Doubles> {
    const DeviceArray param = has_master ? Poison(n, offset) : Upload(weights, offset);
    const DeviceArray master(DType::kFloat32, weights, offset), device_grad = Floats(grad);
    const DeviceArray first_moment = Floats(m), second_moment = Floats(v);
    AdamW(stream(), {.param = param,
                     .master = has_master ? Array(master) : Array(),
                     .grad = device_grad,
                     .m = first_moment,
                     .v = second_moment,
                     .n = n,
                     .lr = h.lr,
                     .beta1 = h.beta1,
                     .beta2 = h.beta2,
                     .epsilon = h.epsilon,
                     .weight_decay = h.weight_decay,
                     .grad_scale = h.grad_scale,
                     .step = step});
    return {param.Values(), master.Values(), first_moment.Values(), second_moment.Values()};
  });
  ReferenceAdamW(h, step, grad, weights, m, v);
  const std::string text = base::Concat(n, " elements, master ", has_master, ", step ", step);
  ExpectClose(found[0], weights, tolerance(), "weights of " + text);
  ExpectClose(found[2], m, 1e-6, "first moment of " + text);
  ExpectClose(found[3], v, 1e-6, "second moment of " + text);
  if (!has_master) return;
  ExpectClose(found[1], weights, 1e-6, "master weights of " + text);
  EXPECT_EQ(found[0], Rounded(dtype(), found[1]))
      << "weights are not the rounded master of " << text;
}

TEST_P(OptimizerKernelTest, AdamWIsTheFormula) {
  for (const int64_t n : kOptimizerCounts) {
    for (const bool has_master : {true, false}) {
      ExpectAdamW(n, has_master, 1, 0);
      ExpectAdamW(n, has_master, 1000, 1);
    }
  }
}

TEST_P(OptimizerKernelTest, AdamWOfNothingDoesNothing) {
  AdamWArgs args;
  args.param = Array(nullptr, dtype());
  AdamW(stream(), args);
}

INSTANTIATE_TEST_SUITE_P(Types, OptimizerKernelTest, kFloatTypes, TypeName);

}  // namespace
}  // namespace tessera::kernels::cuda::testing
