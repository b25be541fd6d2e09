// The router's choice of experts and its probabilities.
#include <bit>
#include <set>

#include "tests/kernels/router_run.h"

namespace tessera::kernels::testing {
namespace {

TEST(RouterTest, ForwardMatchesTheReference) {
  for (const int num_threads : kThreadCounts) {
    const auto backend = MakeCpuBackend(num_threads);
    for (const RouterShape& shape : kRouterShapes) {
      const Floats logits = RandomFloats(shape.num_rows * shape.num_experts, 1, -4, 4);
      const Routed found = Route(*backend, shape, logits);
      const auto expected = reference::Router(shape, ToDoubles(logits));
      EXPECT_EQ(found.chosen, expected.chosen) << Describe(shape);
      ExpectNear(found.probabilities, expected.probabilities, kRouterTolerance, Describe(shape));
      ExpectNear(found.log_sum_exp, expected.log_sum_exp, kRouterTolerance, Describe(shape));
      ExpectNear(found.weight, expected.weight, kRouterTolerance, Describe(shape));
    }
  }
}

TEST(RouterTest, NormalizedWeightsSumToOneAndOthersToTheChosenProbabilities) {
  const auto backend = MakeCpuBackend(1);
  const Floats logits = RandomFloats(50 * 16, 3, -30, 30);
  for (const bool normalize : {true, false}) {
    const Routed routed = Route(*backend, {50, 16, 3, normalize}, logits);
    for (int64_t row = 0; row < 50; ++row) {
      double sum = 0;
      double probability = 0;
      for (int64_t j = row * 3; j < row * 3 + 3; ++j) {
        sum += routed.weight[j];
        probability += routed.probabilities[row * 16 + routed.chosen[j]];
      }
      EXPECT_NEAR(sum, normalize ? 1.0 : probability, 1e-6) << "row " << row;
    }
  }
}

TEST(RouterTest, EqualLogitsGoToTheLowerExperts) {
  const auto backend = MakeCpuBackend(1);
  // Zeros of both signs are equal.
  const Routed routed = Route(*backend, {3, 4, 3, true}, {1, 1, 1, 1, 2, 5, 2, 5, -0.0F, 0, 0, -1});
  EXPECT_EQ(routed.chosen, (Ints{0, 1, 2, 1, 3, 0, 0, 1, 2}));
}

TEST(RouterTest, RowsWithoutNumbersStillChooseDifferentExperts) {
  const auto backend = MakeCpuBackend(1);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float inf = std::numeric_limits<float>::infinity();
  const float all_bits = std::bit_cast<float>(0x7FFFFFFFU);
  const Routed routed =
      Route(*backend, {3, 3, 3, true}, {all_bits, nan, -nan, -inf, -inf, -inf, inf, nan, 0});
  for (int64_t row = 0; row < 3; ++row) {
    const std::set<int32_t> experts(&routed.chosen[row * 3], &routed.chosen[row * 3] + 3);
    EXPECT_EQ(experts, (std::set<int32_t>{0, 1, 2})) << "row " << row;
    EXPECT_TRUE(std::isnan(routed.weight[row * 3])) << "row " << row;
  }
}

}  // namespace
}  // namespace tessera::kernels::testing
