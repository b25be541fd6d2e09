// With dropout every layout trains as one rank does: masks depend on what an element is, not on who
// holds it, nor on when it is computed.
#include <gtest/gtest.h>

#include <cmath>

#include "engine/train/rank_trainer.h"
#include "tests/testing/conformance_plans.h"
#include "tests/testing/counting_source.h"
#include "tests/testing/run_ranks.h"
#include "tests/testing/trained_model.h"

namespace tessera::testing {
namespace {

using spec::ContextKind;
using spec::ParallelSpec;
using spec::Recompute;
using spec::ScheduleKind;

constexpr spec::DropoutSpec kDropout{.hidden = 0.1, .attention = 0.2, .embedding = 0.1};

class DropoutTrainingTest : public ::testing::TestWithParam<spec::ModelSpec> {
 protected:
  static spec::Plan PlanOf(const ParallelSpec& parallel,
                           const spec::DropoutSpec& dropout = kDropout) {
    spec::Plan plan{.model = GetParam(), .parallel = parallel, .threads_per_rank = 1};
    plan.training = {.global_batch_size = 8,
                     .sequence_length = 16,
                     .steps = 5,
                     .precision = spec::Precision::kFp32,
                     // Else updates are made of the rounding of gradients that are zero.
                     .optimizer = {.lr = 2e-3, .adam_eps = 1e-3},
                     .dropout = dropout};
    plan.num_devices = spec::WorldSize(parallel);
    EXPECT_TRUE(FindViolations(plan.model, plan.training, plan.parallel, plan.num_devices).empty());
    return plan;
  }
  static TrainedModel Train(const ParallelSpec& parallel) {
    return TrainOnThreads(PlanOf(parallel));
  }

  // fp32 sums in another order: see layout_cover_test.
  static void ExpectTrainsAlike(const ParallelSpec& parallel, const TrainedModel& expected) {
    SCOPED_TRACE(base::Concat("tp ", parallel.tensor_parallel_size, " pp ",
                              parallel.pipeline_parallel_size, " dp ", parallel.data_parallel_size,
                              " cp ", parallel.context_parallel_size, " micro-batch ",
                              parallel.micro_batch_size));
    const TrainedModel actual = Train(parallel);
    ASSERT_EQ(actual.losses.size(), expected.losses.size());
    for (size_t step = 0; step < expected.losses.size(); ++step) {
      EXPECT_NEAR(actual.losses[step] / expected.losses[step], 1, 2e-5) << "step " << step + 1;
      EXPECT_NEAR(actual.grad_norms[step] / expected.grad_norms[step], 1, 2e-5)
          << "step " << step + 1;
    }
  }
};

TEST_P(DropoutTrainingTest, EveryAxisTrainsAsOneRankDoes) {
  const TrainedModel expected = Train({});
  for (const ParallelSpec& parallel : {
           ParallelSpec{.tensor_parallel_size = 2},
           {.tensor_parallel_size = 2, .sequence_parallel = true},
           {.tensor_parallel_size = 2, .sequence_parallel = true, .overlap_tp_comm = true},
           {.pipeline_parallel_size = 2},
           {.data_parallel_size = 2},
           {.data_parallel_size = 2, .micro_batch_size = 2, .zero_stage = 3},
           {.context_parallel_size = 2, .context_kind = ContextKind::kRing},
           {.context_parallel_size = 2, .context_kind = ContextKind::kAllGather},
           {.context_parallel_size = 2, .context_kind = ContextKind::kAllToAll},
           {.tensor_parallel_size = 2,
           .pipeline_parallel_size = 2,
           .data_parallel_size = 2,
           .context_parallel_size = 2,
           .sequence_parallel = true},
       }) {
    ExpectTrainsAlike(parallel, expected);
  }
}

// Samples of a step are accumulated in other groups.
TEST_P(DropoutTrainingTest, MicrobatchesOfAnySizeTrainAlike) {
  const TrainedModel expected = Train({});
  for (const int size : {2, 4}) ExpectTrainsAlike({.micro_batch_size = size}, expected);
}

TEST_P(DropoutTrainingTest, KeptProbabilitiesTrainAsKeptSumsDo) {
  ExpectTrainsAlike({.attention = spec::AttentionKind::kUnfused}, Train({}));
}

TEST_P(DropoutTrainingTest, WhatIsComputedAgainDropsTheSameToTheBit) {
  for (const auto attention : {spec::AttentionKind::kUnfused, spec::AttentionKind::kFlash}) {
    const TrainedModel expected = Train({.attention = attention});
    for (const auto recompute : {Recompute::kSelective, Recompute::kFull}) {
      const TrainedModel actual = Train({.recompute = recompute, .attention = attention});
      EXPECT_EQ(actual.losses, expected.losses) << ToString(recompute);
      EXPECT_EQ(actual.grad_norms, expected.grad_norms) << ToString(recompute);
    }
  }
}

TEST_P(DropoutTrainingTest, SchedulesDropTheSameToTheBit) {
  const TrainedModel expected =
      Train({.pipeline_parallel_size = 2, .schedule = ScheduleKind::kGPipe});
  for (const auto schedule : {ScheduleKind::kOneForwardOneBackward, ScheduleKind::kZeroBubbleH1}) {
    const TrainedModel actual = Train({.pipeline_parallel_size = 2, .schedule = schedule});
    EXPECT_EQ(actual.losses, expected.losses) << ToString(schedule);
    EXPECT_EQ(actual.grad_norms, expected.grad_norms) << ToString(schedule);
  }
}

// Without this the tests above would hold where nothing is dropped, or always the same.
TEST_P(DropoutTrainingTest, EachKindOfDropoutChangesTheLoss) {
  const double without = TrainOnThreads(PlanOf({}, {})).losses.front();
  for (const spec::DropoutSpec& dropout :
       {spec::DropoutSpec{.hidden = 0.1}, {.attention = 0.1}, {.embedding = 0.1}}) {
    const double with = TrainOnThreads(PlanOf({}, dropout)).losses.front();
    EXPECT_GT(std::abs(with / without - 1), 1e-5);
  }
}

// The loss of the same samples by the same weights, as a run's first step and as its eighth.
TEST_P(DropoutTrainingTest, MasksChangeFromStepToStep) {
  for (const spec::DropoutSpec& dropout : {kDropout, spec::DropoutSpec()}) {
    const spec::Plan plan = PlanOf({}, dropout);
    const CountingSource source(plan.training.sequence_length, plan.model.vocab_size);
    std::vector<double> losses;
    RunRanks(1, [&](engine::Communicator& world) {
      for (const int64_t steps_done : {0, 7}) {
        const auto device = engine::MakeRankDevice({}, world);
        engine::RankTrainer trainer(plan, *device, world, source);
        trainer.SetProgress({.step = steps_done});
        losses.push_back(trainer.Step(false).loss);
      }
    });
    EXPECT_EQ(losses[0] == losses[1], dropout == spec::DropoutSpec());
  }
}

INSTANTIATE_TEST_SUITE_P(Cases, DropoutTrainingTest, ::testing::ValuesIn(GptAndLlama()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace tessera::testing
