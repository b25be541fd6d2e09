// Mixtures of experts on 16-bit rows; routers compute in fp32.
#include <numeric>

#include "tests/kernels/device_array.h"
#include "tests/kernels/expert_reference.h"
#include "tests/kernels/half_test.h"

namespace tessera::kernels::testing {
namespace {

using base::MatMulLayout;

class HalfExpertsTest : public HalfTest {
 protected:
  static constexpr int64_t kGroups[3] = {11, 0, 400};
  static constexpr int64_t kRows = 411, kN = 25, kK = 70;
};

TEST_P(HalfExpertsTest, GroupsMeetTheirOwnWeights) {
  const Doubles a = Random(kRows * kK, 1), b = Random(3 * kN * kK, 2);
  const TypedArray device_a = Half(a), device_b = Half(b), c = UnsetHalf(kRows * kN);
  for (const MatMulLayout layout : {MatMulLayout::kNN, MatMulLayout::kNT}) {
    backend().GroupedMatMul({.a = device_a,
                             .b = device_b,
                             .c = c,
                             .group_rows = kGroups,
                             .num_groups = 3,
                             .m = kRows,
                             .n = kN,
                             .k = kK,
                             .group_stride = kN * kK,
                             .layout = layout});
    Doubles expected = reference::MatMul(layout, 11, kN, kK, a, b);
    const Doubles last = reference::MatMul(layout, 400, kN, kK, {a.begin() + 11 * kK, a.end()},
                                           {b.begin() + 2 * kN * kK, b.end()});
    expected.insert(expected.end(), last.begin(), last.end());
    ExpectClose(c.Values(), expected, "layout");
  }
}

TEST_P(HalfExpertsTest, WeightGradientsOfGroupsAddUpInFloats) {
  const Doubles a = Random(kRows * kK, 1), b = Random(kRows * kN, 2);
  const Doubles before = RandomFloats(3 * kK * kN, 3);
  const TypedArray device_a = Half(a), device_b = Half(b), c = Float(before);
  backend().GroupedMatMul({.a = device_a,
                           .b = device_b,
                           .c = c,
                           .group_rows = kGroups,
                           .num_groups = 3,
                           .m = kK,
                           .n = kN,
                           .k = kRows,
                           .group_stride = kK * kN,
                           .layout = MatMulLayout::kTN});
  Doubles expected = before;
  const Doubles first = reference::MatMul(MatMulLayout::kTN, kK, kN, 11, a, b);
  const Doubles last =
      reference::MatMul(MatMulLayout::kTN, kK, kN, 400, {a.begin() + 11 * kK, a.end()},
                        {b.begin() + 11 * kN, b.end()});
  for (int64_t i = 0; i < kK * kN; ++i) {
    expected[i] += first[i];
    expected[2 * kK * kN + i] += last[i];
  }
  const Doubles found = c.Values();
  for (size_t i = 0; i < found.size(); ++i) {
    ASSERT_NEAR(found[i], expected[i], 1e-4) << i;  // 400 terms below 1 in fp32
  }
}

// Operands of the compute type, logits in fp32: not rounded in between.
TEST_P(HalfExpertsTest, TheRoutersProductFormsLogitsInFloats) {
  const Doubles x = Random(40 * kK, 1), table = Random(8 * kK, 2);
  const TypedArray device_x = Half(x), device_table = Half(table), logits = UnsetFloat(40 * 8);
  backend().MatMul({.a = device_x,
                    .b = device_table,
                    .c = logits,
                    .m = 40,
                    .n = 8,
                    .k = kK,
                    .lda = kK,
                    .ldb = kK,
                    .ldc = 8});
  const Doubles expected = reference::MatMul(MatMulLayout::kNT, 40, 8, kK, x, table);
  const Doubles found = logits.Values();
  for (size_t i = 0; i < found.size(); ++i) ASSERT_NEAR(found[i], expected[i], 2e-5) << i;
}

TEST_P(HalfExpertsTest, TheRoutersGradientIsRoundedOnce) {
  const reference::RouterShape shape{12, 7, 3, true};
  const Doubles logits = RandomFloats(12 * 7, 1), dweight = RandomFloats(12 * 3, 2);
  const auto router = reference::Router(shape, logits);
  const TypedArray probabilities = Float(router.probabilities), weight = Float(router.weight);
  const TypedArray log_sum_exp = Float(router.log_sum_exp), device_dweight = Float(dweight);
  const DeviceInts chosen(backend(), router.chosen);
  const TypedArray dlogits = UnsetHalf(12 * 7), exact = UnsetFloat(12 * 7);
  RouterBackwardArgs args{.probabilities = probabilities,
                          .log_sum_exp = log_sum_exp,
                          .chosen = chosen,
                          .weight = weight,
                          .dweight = device_dweight,
                          .dlogits = dlogits,
                          .num_rows = 12,
                          .num_experts = 7,
                          .num_chosen = 3};
  backend().RouterBackward(args);
  args.dlogits = exact;
  backend().RouterBackward(args);
  Doubles rounded = exact.Values();
  for (double& value : rounded) value = Rounded(value);
  EXPECT_EQ(dlogits.Values(), rounded);
  ExpectClose(dlogits.Values(), reference::RouterBackward(shape, {12, 0, 0}, logits, dweight, 1),
              "dlogits");
}

TEST_P(HalfExpertsTest, WeightedActivationsAreRoundedOnceAndWeightsGradientsNot) {
  constexpr int64_t kWidth = 129;
  const Doubles gate_up = Random(9 * 2 * kWidth, 1, -4, 4), dy = Random(9 * kWidth, 2);
  const Doubles weights = RandomFloats(9, 3);
  const TypedArray device_gate_up = Half(gate_up), device_dy = Half(dy), weight = Float(weights);
  const TypedArray y = UnsetHalf(9 * kWidth), dgate_up = UnsetHalf(9 * 2 * kWidth);
  const TypedArray dweight = UnsetFloat(9);
  backend().SwiGluForward(
      {.gate_up = device_gate_up, .row_weight = weight, .y = y, .num_rows = 9, .width = kWidth});
  backend().SwiGluBackward({.dy = device_dy,
                            .gate_up = device_gate_up,
                            .row_weight = weight,
                            .dgate_up = dgate_up,
                            .dweight = dweight,
                            .num_rows = 9,
                            .width = kWidth});
  Doubles expected = reference::SwiGlu(9, kWidth, gate_up);
  Doubles weighted_dy = dy;
  Doubles products(9, 0.0);
  for (int64_t i = 0; i < 9 * kWidth; ++i) {
    products[i / kWidth] += dy[i] * expected[i];
    expected[i] *= weights[i / kWidth];
    weighted_dy[i] *= weights[i / kWidth];
  }
  ExpectClose(y.Values(), expected, "y");
  ExpectClose(dgate_up.Values(), reference::SwiGluBackward(9, kWidth, weighted_dy, gate_up),
              "dgate_up");
  const Doubles found = dweight.Values();
  for (size_t i = 0; i < found.size(); ++i) EXPECT_NEAR(found[i], products[i], 1e-4) << i;
}

TESSERA_HALF_SUITE(HalfExpertsTest);

}  // namespace
}  // namespace tessera::kernels::testing
