// Where experts are changes no order of a sum: the same bits, whichever ranks hold them.
#include <gtest/gtest.h>

#include <algorithm>

#include "tests/testing/expert_plans.h"
#include "tests/testing/trained_model.h"

namespace tessera::testing {
namespace {

// Rows in a block of the BLAS's kernels, whichever it has: what is left over is rounded otherwise.
constexpr int64_t kRowBlock = 48;

// Four samples a step; routing is forced, so that every expert takes a block's rows of each.
spec::Plan PlanOf(const spec::ParallelSpec& parallel, bool is_gated) {
  const std::vector<NamedPlan> plans = ExpertPlans();
  spec::Plan plan =
      std::find_if(plans.begin(), plans.end(), [&](const NamedPlan& named) {
        return named.plan.model.activation ==
               (is_gated ? spec::ActivationKind::kSwiGlu : spec::ActivationKind::kGelu);
      })->plan;
  plan.model.moe->capacity_factor = 0;
  plan.model.moe->forced_uniform_routing = true;
  plan.model.moe->num_experts = 4;
  plan.model.moe->experts_per_token = 2;
  plan.model.max_sequence_length = plan.training.sequence_length = 2 * kRowBlock;
  plan.training.global_batch_size = 4;
  plan.training.steps = 1;
  plan.training.optimizer.clip_grad = 0;  // the norm adds up in another order
  plan.parallel = parallel;
  plan.parallel.vocab_size_multiple = 8;
  plan.parallel.bucket_elements = 5000;
  plan.parallel.overlap_grad_reduce = false;
  plan.num_devices = spec::WorldSize(parallel);
  return plan;
}

bool IsExpert(const std::string& name) { return name.find(".experts.") != std::string::npos; }

// Of the parameters that `counts` picks; returns how many.
template <typename Counts>
int ExpectSameBits(const GlobalTensors& actual, const GlobalTensors& expected,
                   const Counts& counts) {
  int num_compared = 0;
  for (const auto& [name, tensor] : expected) {
    if (!counts(name)) continue;
    ++num_compared;
    EXPECT_EQ(actual.at(name).values, tensor.values) << name;
  }
  return num_compared;
}

// Each expert adds up the rows of samples 0, 1, 2, 3 in this order, be they one rank's or four's.
TEST(ExpertBitwiseTest, GradientsOfExpertsAreThoseOfOneRank) {
  for (const bool is_gated : {true, false}) {
    const TrainedModel one_rank = TrainOnThreads(PlanOf({.micro_batch_size = 4}, is_gated));
    for (const int ep : {2, 4}) {
      const TrainedModel spread = TrainOnThreads(
          PlanOf({.data_parallel_size = ep, .expert_parallel_size = ep, .micro_batch_size = 4 / ep},
                 is_gated));
      EXPECT_GE(ExpectSameBits(spread.first_gradients, one_rank.first_gradients, IsExpert), 24)
          << "ep " << ep;
    }
  }
}

// Four ranks with a sample each: what is not an expert sees the same numbers.
TEST(ExpertBitwiseTest, AllElseIsThatOfRanksWithAllExperts) {
  for (const bool is_gated : {true, false}) {
    const TrainedModel whole = TrainOnThreads(PlanOf({.data_parallel_size = 4}, is_gated));
    for (const int ep : {2, 4}) {
      const TrainedModel spread =
          TrainOnThreads(PlanOf({.data_parallel_size = 4, .expert_parallel_size = ep}, is_gated));
      EXPECT_EQ(spread.losses, whole.losses) << "ep " << ep;
      ExpectSameBits(spread.first_gradients, whole.first_gradients,
                     [](const std::string& name) { return !IsExpert(name); });
    }
  }
}

TEST(ExpertBitwiseTest, RecomputationRoutesAsBefore) {
  for (const bool is_forced : {true, false}) {
    spec::Plan plan = PlanOf({.data_parallel_size = 2,
                              .expert_parallel_size = 2,
                              .micro_batch_size = 2,
                              .recompute = spec::Recompute::kNone},
                             /*is_gated=*/true);
    plan.model.moe->forced_uniform_routing = is_forced;
    const TrainedModel kept = TrainOnThreads(plan);
    for (const auto recompute : {spec::Recompute::kSelective, spec::Recompute::kFull}) {
      plan.parallel.recompute = recompute;
      const TrainedModel recomputed = TrainOnThreads(plan);
      EXPECT_EQ(recomputed.losses, kept.losses);
      ExpectSameBits(recomputed.first_gradients, kept.first_gradients,
                     [](const std::string&) { return true; });
    }
  }
}

}  // namespace
}  // namespace tessera::testing
