// Context parallelism: what was predicted against what the engine does, rank by rank.
#include <gtest/gtest.h>

#include "cost_model/base/check.h"
#include "cost_model/spec/flat_layout.h"
#include "cost_model/spec/workspace.h"
#include "tests/testing/conformance_run.h"
#include "tests/testing/context_plans.h"
#include "tests/testing/counting_backend.h"

namespace tessera::testing {
namespace {

void ExpectPredicted(const spec::Plan& plan, const DeviceFactory& make_device) {
  ASSERT_TRUE(FindViolations(plan.model, plan.training, plan.parallel, plan.num_devices).empty());
  const spec::Plan predicted = WithPredictedMemory(plan);
  for (const RankOutcome& rank : RunPlan(predicted, make_device)) {
    SCOPED_TRACE(base::Concat("pp rank ", rank.coord.pipeline, ", tp rank ", rank.coord.tensor,
                              ", cp rank ", rank.coord.context));
    ExpectPredictedMemory(predicted, rank);
    ExpectPlannedOperations(predicted, rank);
  }
}

TEST(ContextConformanceTest, RanksDoWhatWasPredicted) {
  for (const NamedPlan& named : ContextPlans()) {
    SCOPED_TRACE(named.name);
    ExpectPredicted(named.plan, [](engine::Communicator& world) {
      return engine::MakeRankDevice({.threads_per_rank = 1}, world);
    });
  }
}

TEST(ContextConformanceTest, RanksOnDevicesOfTheirOwnTakeWhatWasPredicted) {
  for (const spec::Precision precision : {spec::Precision::kBf16, spec::Precision::kFp16}) {
    for (NamedPlan& named : ContextPlans(precision)) {
      SCOPED_TRACE(named.name);
      named.plan.cluster.shared_compute_units = 0;
      ExpectPredicted(named.plan, MakeCountingDevice);
    }
  }
}

// What a rank takes in a training of whole sequences shared by `num_ranks` in a ring.
spec::StageMemory MeasuredMemory(int num_ranks) {
  spec::Plan plan = ContextPlans().front().plan;
  plan.parallel = {.context_parallel_size = num_ranks, .zero_stage = 0, .vocab_size_multiple = 8};
  plan.num_devices = num_ranks;
  const std::vector<RankOutcome> ranks = RunPlan(plan, [](engine::Communicator& world) {
    return engine::MakeRankDevice({.threads_per_rank = 1}, world);
  });
  return ranks.back().memory;
}

// All that a rank keeps belongs to a token of its own, and so does what it works with, but for the
// sums of a step. Weights are whole, in buckets of a multiple of the ranks.
TEST(ContextConformanceTest, TwiceTheRanksTakeHalfTheMemoryOfTokens) {
  const spec::StageMemory alone = MeasuredMemory(1), two = MeasuredMemory(2),
                          four = MeasuredMemory(4);
  EXPECT_EQ(2 * two.activations_bytes, alone.activations_bytes);
  EXPECT_EQ(4 * four.activations_bytes, alone.activations_bytes);
  EXPECT_EQ(2 * (four.buffers_bytes - spec::kStepSumsBytes),
            two.buffers_bytes - spec::kStepSumsBytes);
  EXPECT_GE(four.weights_bytes, alone.weights_bytes);
  EXPECT_LT(four.weights_bytes, alone.weights_bytes + 4 * spec::kFlatAlignmentElements *
                                                          static_cast<int64_t>(sizeof(float)));
}

}  // namespace
}  // namespace tessera::testing
