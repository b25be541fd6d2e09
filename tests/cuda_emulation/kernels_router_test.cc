// The router of a mixture of experts on the device.
#include <array>
#include <set>

#include "tests/cuda_emulation/typed_device.h"
#include "tests/kernels/expert_reference.h"

namespace tessera::kernels::cuda::testing {
namespace {

using reference::RouterShape;
using Ints = std::vector<int32_t>;

// Experts fewer than the lanes of a warp, as many, more; rows that do not fill a block. Rows are a
// multiple of 3, for three sequences.
constexpr RouterShape kRouterShapes[] = {{3, 1, 1, true},   {9, 4, 2, true},   {33, 32, 8, false},
                                         {6, 5, 5, false},  {51, 70, 8, true}, {6, 40, 37, true},
                                         {12, 33, 1, false}};

std::string Text(const RouterShape& shape) {
  return base::Concat(shape.num_rows, " rows, ", shape.num_chosen, " of ", shape.num_experts,
                      shape.normalize ? ", normalized" : "");
}

Doubles Logits(const RouterShape& shape) {
  return Rounded(DType::kFloat32, RandomDoubles(shape.num_rows * shape.num_experts, 1, -4, 4));
}

struct Routed {
  std::vector<Doubles> arrays;  // probabilities, log-sum-exp, weight
  Ints chosen;
};

Routed Route(const LaunchContext& stream, const RouterShape& shape, const Doubles& logits,
             bool in_place) {
  const int64_t num_choices = shape.num_rows * shape.num_chosen;
  Routed routed;
  routed.arrays = InAllOrders([&] {
    const DeviceArray device_logits = Floats(logits);
    const DeviceArray own = PoisonFloats(shape.num_rows * shape.num_experts);
    const DeviceArray log_sum_exp = PoisonFloats(shape.num_rows);
    const DeviceArray weight = PoisonFloats(num_choices);
    const DeviceMemory<int32_t> chosen(Ints(num_choices, -1));
    const DeviceArray& probabilities = in_place ? device_logits : own;
    RouterForward(stream, {.logits = device_logits,
                           .probabilities = probabilities,
                           .log_sum_exp = log_sum_exp,
                           .chosen = {chosen.data(), DType::kInt32},
                           .weight = weight,
                           .num_rows = shape.num_rows,
                           .num_experts = shape.num_experts,
                           .num_chosen = shape.num_chosen,
                           .normalize = shape.normalize});
    routed.chosen = chosen.Values();
    return std::vector<Doubles>{probabilities.Values(), log_sum_exp.Values(), weight.Values()};
  });
  return routed;
}

class RouterKernelTest : public KernelTest {};

TEST(RouterForwardKernelTest, ChoosesAndWeighsAsTheReference) {
  const TestStream stream;
  for (const RouterShape& shape : kRouterShapes) {
    const Doubles logits = Logits(shape);
    const auto expected = reference::Router(shape, logits);
    for (const bool in_place : {false, true}) {
      const Routed found = Route(stream, shape, logits, in_place);
      EXPECT_EQ(found.chosen, expected.chosen) << Text(shape);
      ExpectClose(found.arrays[0], expected.probabilities, 1e-6, Text(shape));
      ExpectClose(found.arrays[1], expected.log_sum_exp, 1e-6, Text(shape));
      ExpectClose(found.arrays[2], expected.weight, 1e-6, Text(shape));
    }
  }
}

TEST(RouterForwardKernelTest, EqualLogitsGoToTheLowerExpertsAndNoNumbersToDifferentOnes) {
  const TestStream stream;
  const Routed equal =
      Route(stream, {3, 4, 3, true}, {1, 1, 1, 1, 2, 5, 2, 5, -0.0, 0, 0, -1}, false);
  EXPECT_EQ(equal.chosen, (Ints{0, 1, 2, 1, 3, 0, 0, 1, 2}));
  Doubles nans(2 * 40, std::nan(""));
  std::fill(nans.begin() + 40, nans.end(), -std::numeric_limits<double>::infinity());
  const DeviceArray logits = Floats(nans), log_sum_exp = PoisonFloats(2), weight = PoisonFloats(80);
  const DeviceMemory<int32_t> chosen(Ints(80, -1));
  RouterForward(stream, {.logits = logits,
                         .probabilities = logits,
                         .log_sum_exp = log_sum_exp,
                         .chosen = {chosen.data(), DType::kInt32},
                         .weight = weight,
                         .num_rows = 2,
                         .num_experts = 40,
                         .num_chosen = 40});
  const Ints experts = chosen.Values();
  EXPECT_EQ(std::set<int32_t>(experts.begin(), experts.begin() + 40).size(), 40U);
  EXPECT_EQ(std::set<int32_t>(experts.begin() + 40, experts.end()).size(), 40U);
  for (const double value : weight.Values()) EXPECT_TRUE(std::isnan(value));
}

// A rank's rows begin within a sequence, end within another, and leave one out altogether.
TEST(RouterForwardKernelTest, CountsBelongToTheSequencesOfTheRows) {
  const TestStream stream;
  constexpr int64_t kRows = 1700, kExperts = 5, kChosen = 2, kFirst = 700, kSequence = 1000;
  Ints choices;
  Doubles expected(4 * kExperts, 0.0);
  for (int64_t row = 0; row < kRows; ++row) {
    for (const int64_t step : {1, 4}) {
      choices.push_back(static_cast<int32_t>((row * row + step) % kExperts));
      expected[(kFirst + row) / kSequence * kExperts + choices.back()] += 1;
    }
  }
  const DeviceInts chosen(choices);
  const auto found = InAllOrders([&] {
    const DeviceArray counts = PoisonFloats(4 * kExperts);
    ExpertCount(stream, {.chosen = chosen,
                         .counts = counts,
                         .num_rows = kRows,
                         .num_experts = kExperts,
                         .num_chosen = kChosen,
                         .first_row = kFirst,
                         .sequence = kSequence,
                         .num_sequences = 4});
    return std::vector<Doubles>{counts.Values()};
  });
  EXPECT_EQ(found[0], expected);
}

TEST_P(RouterKernelTest, BackwardIsTheGradientAndAddsUpTheLosses) {
  // The last takes several turns of the blocks.
  std::vector<RouterShape> shapes(std::begin(kRouterShapes), std::end(kRouterShapes));
  if (dtype() == DType::kFloat32) shapes.push_back({8196, 2, 1, false});
  for (const RouterShape& shape : shapes) {
    const int64_t sequence = shape.num_rows / 3;
    const reference::RouterLossSpec spec{sequence, 0.01F, 0.003F};
    const Doubles logits = Logits(shape);
    const Doubles dweight =
        Rounded(DType::kFloat32, RandomDoubles(shape.num_rows * shape.num_chosen, 2));
    const auto router = reference::Router(shape, logits);
    const DeviceArray probabilities = Floats(router.probabilities), weight = Floats(router.weight);
    const DeviceArray log_sum_exp = Floats(router.log_sum_exp), device_dweight = Floats(dweight);
    const DeviceArray counts = Floats(reference::ExpertCounts(shape, sequence, router));
    const DeviceInts chosen(router.chosen);
    RouterBackwardArgs args{.probabilities = probabilities,
                            .log_sum_exp = log_sum_exp,
                            .chosen = chosen,
                            .weight = weight,
                            .dweight = device_dweight,
                            .counts = counts,
                            .num_rows = shape.num_rows,
                            .num_experts = shape.num_experts,
                            .num_chosen = shape.num_chosen,
                            .sequence = sequence,
                            .sequence_tokens = sequence,
                            .normalize = shape.normalize,
                            .balance_coefficient = 0.01F,
                            .z_coefficient = 0.003F,
                            .grad_scale = 0.5F};
    const auto found = InAllOrders([&] {
      const DeviceArray dlogits = Poison(shape.num_rows * shape.num_experts);
      const DeviceMemory<double> balance(Doubles{100}), z(Doubles{200});
      args.dlogits = dlogits;
      args.balance_loss_sum = balance.data();
      args.z_loss_sum = z.data();
      RouterBackward(stream(), args);
      return std::vector<Doubles>{dlogits.Values(), balance.Values(), z.Values()};
    });
    ExpectClose(found[0], reference::RouterBackward(shape, spec, logits, dweight, 0.5), tolerance(),
                Text(shape));
    const auto losses = reference::AuxiliaryLosses(shape, spec, logits);
    EXPECT_NEAR(found[1][0] - 100, losses.balance, 1e-6 * losses.balance) << Text(shape);
    EXPECT_NEAR(found[2][0] - 200, losses.z, 1e-6 * losses.z) << Text(shape);
  }
}

TEST_P(RouterKernelTest, WithoutCountsAndSumsNoLossPulls) {
  const RouterShape shape{10, 6, 2, true};
  const Doubles logits = Logits(shape), dweight = Random(20, 2);
  const auto router = reference::Router(shape, logits);
  const DeviceArray probabilities = Floats(router.probabilities), weight = Floats(router.weight);
  const DeviceArray log_sum_exp = Floats(router.log_sum_exp), device_dweight = Floats(dweight);
  const DeviceInts chosen(router.chosen);
  const DeviceArray dlogits = Poison(60);
  RouterBackward(stream(), {.probabilities = probabilities,
                            .log_sum_exp = log_sum_exp,
                            .chosen = chosen,
                            .weight = weight,
                            .dweight = device_dweight,
                            .dlogits = dlogits,
                            .num_rows = 10,
                            .num_experts = 6,
                            .num_chosen = 2,
                            .balance_coefficient = 1,
                            .z_coefficient = 1});
  ExpectClose(dlogits.Values(), reference::RouterBackward(shape, {10, 0, 0}, logits, dweight, 1),
              tolerance(), "");
}

INSTANTIATE_TEST_SUITE_P(Types, RouterKernelTest, kFloatTypes, TypeName);

}  // namespace
}  // namespace tessera::kernels::cuda::testing
