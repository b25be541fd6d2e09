#include <array>
#include <numeric>
#include <set>

#include "tests/kernels/device_array.h"
#include "tests/kernels/expert_reference.h"

namespace tessera::kernels::testing {
namespace {

using reference::RouterShape;
using Ints = std::vector<int32_t>;

// Softmax and a handful of roundings.
constexpr double kTolerance = 1e-6;

// Rows are a multiple of 3, for three sequences.
constexpr RouterShape kShapes[] = {{3, 1, 1, true},  {9, 4, 2, true},    {33, 8, 2, false},
                                   {6, 5, 5, true},  {201, 70, 8, true}, {33, 64, 6, false},
                                   {12, 8, 1, false}};

std::string Describe(const RouterShape& shape) {
  return base::Concat("rows ", shape.num_rows, " experts ", shape.num_experts, " chosen ",
                      shape.num_chosen, shape.normalize ? " normalized" : "");
}

struct Routed {
  Floats probabilities, log_sum_exp, weight;
  Ints chosen;
};

Routed Route(Backend& backend, const RouterShape& shape, const Floats& logit_values) {
  const int64_t num_weights = shape.num_rows * shape.num_chosen;
  const DeviceFloats logits(backend, logit_values);
  const DeviceFloats log_sum_exp = Unset(backend, shape.num_rows);
  const DeviceFloats weight = Unset(backend, num_weights);
  const DeviceInts chosen(backend, Ints(num_weights, -1));
  backend.RouterForward({.logits = logits,
                         .probabilities = logits,
                         .log_sum_exp = log_sum_exp,
                         .chosen = chosen,
                         .weight = weight,
                         .num_rows = shape.num_rows,
                         .num_experts = shape.num_experts,
                         .num_chosen = shape.num_chosen,
                         .normalize = shape.normalize});
  return {logits.Values(), log_sum_exp.Values(), weight.Values(), chosen.Values()};
}

TEST(RouterTest, ForwardMatchesTheReference) {
  for (const int num_threads : kThreadCounts) {
    const auto backend = MakeCpuBackend(num_threads);
    for (const RouterShape& shape : kShapes) {
      const Floats logits = RandomFloats(shape.num_rows * shape.num_experts, 1, -4, 4);
      const Routed found = Route(*backend, shape, logits);
      const auto expected = reference::Router(shape, ToDoubles(logits));
      EXPECT_EQ(found.chosen, expected.chosen) << Describe(shape);
      ExpectNear(found.probabilities, expected.probabilities, kTolerance, Describe(shape));
      ExpectNear(found.log_sum_exp, expected.log_sum_exp, kTolerance, Describe(shape));
      ExpectNear(found.weight, expected.weight, kTolerance, Describe(shape));
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

// The coefficients of the backward tests.
constexpr double kBalance = 0.01, kZ = 0.003;
constexpr float kGradScale = 0.25F;

struct Losses {
  double balance = 0, z = 0;
};

// Counts of the rows [first, first + num_rows) of sequences of `sequence`.
Floats Count(Backend& backend, const RouterShape& shape, const Ints& chosen_values, int64_t first,
             int64_t sequence, int64_t num_sequences) {
  const DeviceInts chosen(backend, chosen_values);
  const DeviceFloats counts = Unset(backend, num_sequences * shape.num_experts);
  backend.ExpertCount({.chosen = chosen,
                       .counts = counts,
                       .num_rows = shape.num_rows,
                       .num_experts = shape.num_experts,
                       .num_chosen = shape.num_chosen,
                       .first_row = first,
                       .sequence = sequence,
                       .num_sequences = num_sequences});
  return counts.Values();
}

Floats Backward(Backend& backend, const RouterShape& shape, const Routed& routed,
                const Floats& dweight_values, const Floats& count_values, int64_t first,
                int64_t sequence, Losses& losses) {
  const DeviceFloats probabilities(backend, routed.probabilities), weight(backend, routed.weight);
  const DeviceFloats log_sum_exp(backend, routed.log_sum_exp), dweight(backend, dweight_values);
  const DeviceFloats counts(backend, count_values);
  const DeviceInts chosen(backend, routed.chosen);
  const DeviceFloats dlogits = Unset(backend, shape.num_rows * shape.num_experts);
  const bool has_balance = !count_values.empty();
  backend.RouterBackward({.probabilities = probabilities,
                          .log_sum_exp = log_sum_exp,
                          .chosen = chosen,
                          .weight = weight,
                          .dweight = dweight,
                          .counts = has_balance ? ConstArray(counts) : ConstArray(),
                          .dlogits = dlogits,
                          .balance_loss_sum = has_balance ? &losses.balance : nullptr,
                          .z_loss_sum = has_balance ? &losses.z : nullptr,
                          .num_rows = shape.num_rows,
                          .num_experts = shape.num_experts,
                          .num_chosen = shape.num_chosen,
                          .first_row = first,
                          .sequence = sequence,
                          .sequence_tokens = sequence,
                          .normalize = shape.normalize,
                          .balance_coefficient = static_cast<float>(kBalance),
                          .z_coefficient = static_cast<float>(kZ),
                          .grad_scale = kGradScale});
  return dlogits.Values();
}

TEST(RouterTest, BackwardMatchesTheReferenceAndLossesAddUp) {
  for (const int num_threads : kThreadCounts) {
    const auto backend = MakeCpuBackend(num_threads);
    for (const RouterShape& shape : kShapes) {
      const Floats logits = RandomFloats(shape.num_rows * shape.num_experts, 1, -4, 4);
      Floats dweight = RandomFloats(shape.num_rows * shape.num_chosen, 2);
      dweight[0] = 0;  // a copy that no expert took
      const int64_t sequence = shape.num_rows / 3;
      const Routed routed = Route(*backend, shape, logits);
      const Floats counts = Count(*backend, shape, routed.chosen, 0, sequence, 3);
      Losses losses{100, 200};
      const Floats dlogits =
          Backward(*backend, shape, routed, dweight, counts, 0, sequence, losses);
      const reference::RouterLossSpec spec{sequence, kBalance, kZ};
      const auto expected = reference::AuxiliaryLosses(shape, spec, ToDoubles(logits));
      EXPECT_NEAR(losses.balance - 100, expected.balance, 1e-6 * expected.balance);
      EXPECT_NEAR(losses.z - 200, expected.z, 1e-6 * expected.z);
      ExpectNear(
          dlogits,
          reference::RouterBackward(shape, spec, ToDoubles(logits), ToDoubles(dweight), kGradScale),
          kTolerance, Describe(shape));
      const reference::RouterLossSpec none{sequence, 0, 0};
      ExpectNear(Backward(*backend, shape, routed, dweight, {}, 0, sequence, losses),
                 reference::RouterBackward(shape, none, ToDoubles(logits), ToDoubles(dweight), 1),
                 kTolerance, Describe(shape) + " without losses");
    }
  }
}

// Two ranks that share sequences: counts and losses add up, gradients are those of the whole.
TEST(RouterTest, PartsOfSequencesAddUpToTheWhole) {
  const auto backend = MakeCpuBackend(1);
  constexpr int64_t kSequence = 10, kRows = 20, kSplit = 7, kExperts = 6, kChosen = 2;
  const RouterShape whole{kRows, kExperts, kChosen, true};
  const Floats logits = RandomFloats(kRows * kExperts, 1, -2, 2);
  const Floats dweight = RandomFloats(kRows * kChosen, 2);
  const Routed all = Route(*backend, whole, logits);
  const Floats counts = Count(*backend, whole, all.chosen, 0, kSequence, 2);
  EXPECT_EQ(std::accumulate(counts.begin(), counts.end(), 0.0), kRows * kChosen);
  Losses losses, part_losses;
  const Floats dlogits = Backward(*backend, whole, all, dweight, counts, 0, kSequence, losses);
  Floats count_sums(counts.size());
  Floats part_dlogits;
  for (const auto& [begin, end] : {std::array<int64_t, 2>{0, kSplit}, {kSplit, kRows}}) {
    const RouterShape part{end - begin, kExperts, kChosen, true};
    const Routed routed =
        Route(*backend, part, {logits.begin() + begin * kExperts, logits.begin() + end * kExperts});
    const Floats own = Count(*backend, part, routed.chosen, begin, kSequence, 2);
    for (size_t i = 0; i < own.size(); ++i) count_sums[i] += own[i];
    const Floats part_dweight(dweight.begin() + begin * kChosen, dweight.begin() + end * kChosen);
    const Floats gradient =
        Backward(*backend, part, routed, part_dweight, counts, begin, kSequence, part_losses);
    part_dlogits.insert(part_dlogits.end(), gradient.begin(), gradient.end());
  }
  EXPECT_EQ(count_sums, counts);
  EXPECT_EQ(part_dlogits, dlogits);
  EXPECT_NEAR(part_losses.balance, losses.balance, 1e-12);
  EXPECT_NEAR(part_losses.z, losses.z, 1e-12);
}

// Experts that all rows choose alike, with alike probabilities: f P sums to 1 (the least that the
// loss can be), so T alpha for each sequence.
TEST(RouterTest, AnEvenLoadCostsTheCoefficientForEachToken) {
  const auto backend = MakeCpuBackend(1);
  const RouterShape shape{8, 4, 4, true};
  const Routed routed = Route(*backend, shape, Floats(32, 0.5F));
  Losses losses;
  Backward(*backend, shape, routed, Floats(32, 0.0F), Floats(4, 8.0F), 0, 8, losses);
  EXPECT_NEAR(losses.balance, 8 * kBalance, 1e-7);
}

}  // namespace
}  // namespace tessera::kernels::testing
