// The reference's own backward passes, held against differences of its forward passes: what the
// kernels are compared with is itself proven.
#include <gtest/gtest.h>

#include <functional>

#include "tests/kernels/device_array.h"
#include "tests/kernels/expert_reference.h"

namespace tessera::kernels::testing {
namespace {

using reference::AttentionShape;
using reference::NormKind;

double Dot(const Doubles& a, const Doubles& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

Doubles Moved(const Doubles& x, const Doubles& direction, double distance) {
  Doubles moved = x;
  for (size_t i = 0; i < x.size(); ++i) moved[i] += distance * direction[i];
  return moved;
}

// The slope of `loss` at x along a random direction equals gradient . direction. Central
// differences with step 1e-5 have an error near 1e-10 of the third derivative.
void ExpectGradient(const std::function<double(const Doubles&)>& loss, const Doubles& x,
                    const Doubles& gradient, const std::string& what) {
  constexpr double kStep = 1e-5;
  for (uint32_t seed = 50; seed < 53; ++seed) {
    const Doubles direction = ToDoubles(RandomFloats(static_cast<int64_t>(x.size()), seed));
    const double slope =
        (loss(Moved(x, direction, kStep)) - loss(Moved(x, direction, -kStep))) / (2 * kStep);
    const double expected = Dot(gradient, direction);
    EXPECT_NEAR(slope, expected, 1e-7 * std::max(1.0, std::abs(expected))) << what;
  }
}

Doubles Random(int64_t n, uint32_t seed) { return ToDoubles(RandomFloats(n, seed)); }

TEST(ReferenceGradientTest, GeluGradIsTheSlopeOfGelu) {
  for (double x = -4; x < 4; x += 0.37) {
    const double slope = (reference::Gelu(x + 1e-5) - reference::Gelu(x - 1e-5)) / 2e-5;
    EXPECT_NEAR(reference::GeluGrad(x), slope, 1e-8) << "x = " << x;
  }
}

TEST(ReferenceGradientTest, NormBackwardIsTheGradientOfNorm) {
  constexpr int64_t kRows = 5, kWidth = 13;
  constexpr double kEpsilon = 1e-5;
  for (const NormKind kind : {NormKind::kLayerNorm, NormKind::kRmsNorm}) {
    const Doubles x = Random(kRows * kWidth, 1), gamma = Random(kWidth, 2),
                  beta = Random(kWidth, 3);
    const Doubles dy = Random(kRows * kWidth, 4);
    const auto loss = [&](const Doubles& at_x, const Doubles& at_gamma, const Doubles& at_beta) {
      return Dot(reference::Norm(kind, kRows, kWidth, at_x, at_gamma, at_beta, kEpsilon).y, dy);
    };
    const auto grads = reference::NormBackward(kind, kRows, kWidth, dy, x, gamma, kEpsilon);
    ExpectGradient([&](const Doubles& at) { return loss(at, gamma, beta); }, x, grads.dx, "dx");
    ExpectGradient([&](const Doubles& at) { return loss(x, at, beta); }, gamma, grads.dgamma,
                   "dgamma");
    if (kind == NormKind::kRmsNorm) continue;
    ExpectGradient([&](const Doubles& at) { return loss(x, gamma, at); }, beta, grads.dbeta,
                   "dbeta");
  }
}

TEST(ReferenceGradientTest, SwiGluBackwardIsTheGradientOfSwiGlu) {
  constexpr int64_t kRows = 4, kWidth = 9;
  const Doubles gate_up = Random(kRows * 2 * kWidth, 1), dy = Random(kRows * kWidth, 2);
  ExpectGradient([&](const Doubles& at) { return Dot(reference::SwiGlu(kRows, kWidth, at), dy); },
                 gate_up, reference::SwiGluBackward(kRows, kWidth, dy, gate_up), "dgate_up");
}

// Rope is linear and a rotation: its gradient is the rotation by the opposite angle.
TEST(ReferenceGradientTest, RopeTurnedBackIsTheGradientOfRope) {
  constexpr int64_t kRows = 10, kSequence = 5, kHeads = 3, kHeadDim = 8;
  const Doubles x = Random(kRows * kHeads * kHeadDim, 1), dy = Random(kRows * kHeads * kHeadDim, 2);
  const Doubles frequency = Random(kHeadDim / 2, 3);
  const auto turn = [&](const Doubles& values, double direction) {
    return reference::Rope(kRows, kSequence, kHeads, kHeadDim, values, frequency, direction);
  };
  ExpectGradient([&](const Doubles& at) { return Dot(turn(at, 1), dy); }, x, turn(dy, -1), "dx");
}

TEST(ReferenceGradientTest, AttentionBackwardIsTheGradientOfAttention) {
  const AttentionShape shape{2, 9, 4, 2, 6, 0.4};
  const Doubles q = Random(shape.NumRows() * shape.QueryWidth(), 1);
  const Doubles k = Random(shape.NumRows() * shape.KeyWidth(), 2);
  const Doubles v = Random(shape.NumRows() * shape.KeyWidth(), 3);
  const Doubles dout = Random(shape.NumRows() * shape.QueryWidth(), 4);
  const auto grads = reference::AttentionBackward(shape, dout, q, k, v);
  const auto loss = [&](const Doubles& at_q, const Doubles& at_k, const Doubles& at_v) {
    return Dot(reference::Attention(shape, at_q, at_k, at_v).out, dout);
  };
  ExpectGradient([&](const Doubles& at) { return loss(at, k, v); }, q, grads.dq, "dq");
  ExpectGradient([&](const Doubles& at) { return loss(q, at, v); }, k, grads.dk, "dk");
  ExpectGradient([&](const Doubles& at) { return loss(q, k, at); }, v, grads.dv, "dv");
}

TEST(ReferenceGradientTest, AttentionBackwardIsTheGradientOfAttentionThroughAMask) {
  const AttentionShape shape{2, 9, 4, 2, 6, 0.4};
  const Doubles q = Random(shape.NumRows() * shape.QueryWidth(), 1);
  const Doubles k = Random(shape.NumRows() * shape.KeyWidth(), 2);
  const Doubles v = Random(shape.NumRows() * shape.KeyWidth(), 3);
  const Doubles dout = Random(shape.NumRows() * shape.QueryWidth(), 4);
  Doubles mask = Random(shape.batch * shape.num_heads * shape.sequence * shape.sequence, 5);
  for (double& factor : mask) factor = factor < 0 ? 0 : 2;
  const auto grads = reference::AttentionBackward(shape, dout, q, k, v, mask);
  const auto loss = [&](const Doubles& at_q, const Doubles& at_k, const Doubles& at_v) {
    return Dot(reference::Attention(shape, at_q, at_k, at_v, mask).out, dout);
  };
  ExpectGradient([&](const Doubles& at) { return loss(at, k, v); }, q, grads.dq, "dq");
  ExpectGradient([&](const Doubles& at) { return loss(q, at, v); }, k, grads.dk, "dk");
  ExpectGradient([&](const Doubles& at) { return loss(q, k, at); }, v, grads.dv, "dv");
}

TEST(ReferenceGradientTest, CrossEntropyGradientIsTheGradientOfTheLoss) {
  constexpr int64_t kRows = 4, kColumns = 12, kValid = 10;
  const Doubles logits = Random(kRows * kColumns, 1);
  const std::vector<int32_t> labels = {0, 9, 4, 4};
  const auto run = [&](const Doubles& at) {
    return reference::CrossEntropy(kRows, kColumns, kValid, at, labels);
  };
  ExpectGradient([&](const Doubles& at) { return Dot(run(at).loss, Doubles(kRows, 1.0)); }, logits,
                 run(logits).dlogits, "dlogits");
}

// From logits to what the router contributes to a loss. No choice changes over so small a step, so
// counts hold still.
TEST(ReferenceGradientTest, RouterBackwardIsTheGradientOfWeightsAndAuxiliaryLosses) {
  for (const bool normalize : {true, false}) {
    const reference::RouterShape shape{12, 7, 3, normalize};
    const Doubles logits = Random(12 * 7, 1), dweight = Random(12 * 3, 2);
    for (const reference::RouterLossSpec& spec :
         {reference::RouterLossSpec{4, 0, 0}, {4, 0.7, 0}, {4, 0, 0.3}, {12, 0.7, 0.3}}) {
      constexpr double kGradScale = 0.5;
      const auto loss = [&](const Doubles& at) {
        const auto auxiliary = reference::AuxiliaryLosses(shape, spec, at);
        return Dot(reference::Router(shape, at).weight, dweight) +
               kGradScale * (auxiliary.balance + auxiliary.z);
      };
      ExpectGradient(loss, logits,
                     reference::RouterBackward(shape, spec, logits, dweight, kGradScale),
                     base::Concat("balance ", spec.balance_coefficient, " z ", spec.z_coefficient));
    }
  }
}

}  // namespace
}  // namespace tessera::kernels::testing
