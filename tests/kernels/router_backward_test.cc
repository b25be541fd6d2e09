// The router's gradient, and the losses that depend on it alone.
#include <array>
#include <numeric>

#include "tests/kernels/router_run.h"

namespace tessera::kernels::testing {
namespace {

// The coefficients of the backward tests.
constexpr double kBalance = 0.01, kZ = 0.003;
constexpr float kRouterGradScale = 0.25F;

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
                          .grad_scale = kRouterGradScale});
  return dlogits.Values();
}

TEST(RouterBackwardTest, BackwardMatchesTheReferenceAndLossesAddUp) {
  for (const int num_threads : kThreadCounts) {
    const auto backend = MakeCpuBackend(num_threads);
    for (const RouterShape& shape : kRouterShapes) {
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
      ExpectNear(dlogits,
                 reference::RouterBackward(shape, spec, ToDoubles(logits), ToDoubles(dweight),
                                           kRouterGradScale),
                 kRouterTolerance, Describe(shape));
      const reference::RouterLossSpec none{sequence, 0, 0};
      ExpectNear(Backward(*backend, shape, routed, dweight, {}, 0, sequence, losses),
                 reference::RouterBackward(shape, none, ToDoubles(logits), ToDoubles(dweight), 1),
                 kRouterTolerance, Describe(shape) + " without losses");
    }
  }
}

// Two ranks that share sequences: counts and losses add up, gradients are those of the whole.
TEST(RouterBackwardTest, PartsOfSequencesAddUpToTheWhole) {
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
TEST(RouterBackwardTest, AnEvenLoadCostsTheCoefficientForEachToken) {
  const auto backend = MakeCpuBackend(1);
  const RouterShape shape{8, 4, 4, true};
  const Routed routed = Route(*backend, shape, Floats(32, 0.5F));
  Losses losses;
  Backward(*backend, shape, routed, Floats(32, 0.0F), Floats(4, 8.0F), 0, 8, losses);
  EXPECT_NEAR(losses.balance, 8 * kBalance, 1e-7);
}

}  // namespace
}  // namespace tessera::kernels::testing
