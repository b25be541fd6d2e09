// Choices that only move work in time or memory change no sum: over the cover of layouts they give
// the same bits as their plain form.
#include <gtest/gtest.h>

#include "cost_model/spec/flat_layout.h"
#include "tests/testing/layout_cover.h"
#include "tests/testing/trained_model.h"

namespace tessera::testing {
namespace {

// The same ranks and shards with everything kept, in the order of GPipe, nothing hidden.
spec::ParallelSpec PlainForm(spec::ParallelSpec parallel) {
  parallel.recompute = spec::Recompute::kNone;
  parallel.recomputed_layers_per_virtual_stage.clear();
  parallel.schedule = spec::ScheduleKind::kGPipe;
  // Two chunks of a stage become one.
  if (parallel.virtual_pipeline_size > 1) parallel.layers_per_virtual_stage.clear();
  parallel.virtual_pipeline_size = 1;
  parallel.microbatch_group_size = 0;
  parallel.overlap_grad_reduce = false;
  parallel.overlap_param_gather = false;
  parallel.overlap_tp_comm = false;
  parallel.overlap_pp_comm = false;
  parallel.scatter_gather_transfers = false;
  parallel.offload_optimizer = false;
  // Gradients that are reduced once are summed over the ranks in their order, sharded or not. In
  // smaller groups, or after each micro-batch, the sums have another order.
  if (parallel.zero_group_size == 0 && !spec::ReducesEachMicrobatch(parallel)) {
    parallel.zero_stage = 0;
  }
  return parallel;
}

void ExpectSameBits(const GlobalTensors& actual, const GlobalTensors& expected, const char* what) {
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    ASSERT_TRUE(actual.contains(name)) << name;
    EXPECT_EQ(actual.at(name).values, tensor.values) << what << " of " << name;
  }
}

class LayoutBitsTest : public ::testing::TestWithParam<CoverTraining> {};

TEST_P(LayoutBitsTest, MovedWorkGivesTheSameBits) {
  SCOPED_TRACE(GetParam().name);
  spec::Plan plan = GetParam().plan;
  // The ranks add up the norm over what each holds, which other chunks and shards cut elsewhere.
  plan.training.optimizer.clip_grad = 0;
  spec::Plan plain = plan;
  plain.parallel = PlainForm(plan.parallel);
  ASSERT_TRUE(
      FindViolations(plain.model, plain.training, plain.parallel, plain.num_devices).empty());
  if (plain.parallel == plan.parallel) return;
  const TrainedModel expected = TrainOnThreads(plain);
  const TrainedModel actual = TrainOnThreads(plan);
  EXPECT_EQ(actual.losses, expected.losses);
  ExpectSameBits(actual.first_gradients, expected.first_gradients, "gradient");
  ExpectSameBits(actual.weights, expected.weights, "weight");
}

INSTANTIATE_TEST_SUITE_P(Cover, LayoutBitsTest, ::testing::ValuesIn(CoverOfLayouts().trainings),
                         [](const auto& test) { return "Row" + std::to_string(test.index); });

}  // namespace
}  // namespace tessera::testing
