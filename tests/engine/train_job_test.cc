#include "engine/train/train_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>
#include <stdexcept>

#include "tests/engine/data_test_files.h"
#include "tests/engine/small_training.h"

namespace tessera::engine {
namespace {

using test::SmallPlan;
using ::testing::HasSubstr;

constexpr int64_t kJobSteps = 4;

class TrainJobTest : public ::testing::Test {
 protected:
  TrainOptions Options(const spec::ParallelSpec& parallel) const {
    return {.plan = SmallPlan(parallel),
            .data_path = folder_.Write("data.u8", std::string(1000, 'a')),
            .timeout_s = testing::kTestTimeoutSeconds};
  }

  test::TestFolder folder_;
  const std::atomic<bool> stop_ = false;
};

TEST_F(TrainJobTest, WhatACallbackThrowsEndsAllRanksAndComesOut) {
  const TrainOptions options =
      Options({.tensor_parallel_size = 2, .pipeline_parallel_size = 2, .data_parallel_size = 2});
  for (const int64_t failing_step : {int64_t{1}, int64_t{3}, kJobSteps}) {
    const TrainCallbacks callbacks{.on_step = [&](const StepRow& row) {
      if (row.result.step == failing_step) throw base::SystemError("the disk is full");
    }};
    try {
      RunTraining(options, callbacks, stop_);
      FAIL() << "no failure at step " << failing_step;
    } catch (const base::SystemError& error) {
      EXPECT_STREQ(error.what(), "the disk is full");
    }
  }
}

TEST_F(TrainJobTest, RanksThatTakeUpTheMachineHaveCoresOfTheirOwn) {
  cpu_set_t usable;
  ASSERT_EQ(sched_getaffinity(0, sizeof(usable), &usable), 0);
  if (CPU_COUNT(&usable) != 2) GTEST_SKIP() << "needs two cores";
  int num_cores = 0;
  const TrainCallbacks callbacks{.on_step = [&](const StepRow&) {
    cpu_set_t own;
    ASSERT_EQ(sched_getaffinity(0, sizeof(own), &own), 0);
    num_cores = CPU_COUNT(&own);
  }};
  RunTraining(Options({.data_parallel_size = 2}), callbacks, stop_);
  EXPECT_EQ(num_cores, 1);
}

// Breaks one rank's weights; returns how the step ends on each rank.
std::vector<std::string> StepWithBrokenWeights(const spec::Plan& plan, int broken_rank) {
  const testing::CountingSource source(plan.training.sequence_length, plan.model.vocab_size);
  std::vector<std::string> messages(static_cast<size_t>(plan.num_devices));
  testing::RunRanks(plan.num_devices, [&](Communicator& world) {
    const auto device = MakeRankDevice({}, world);
    RankTrainer trainer(plan, *device, world, source);
    trainer.Step(false);
    const HostState host = trainer.State();  // the weights themselves
    const TrainState& state = host.state();
    const std::span<float> weights(state.weights, static_cast<size_t>(state.layout.num_elements));
    if (world.rank() == broken_rank) {
      std::fill(weights.begin(), weights.end(), std::numeric_limits<float>::quiet_NaN());
    }
    const std::vector<float> kept(weights.begin(), weights.end());
    const float kept_moment = state.m[0];
    try {
      trainer.Step(false);
    } catch (const DivergedError& error) {
      messages[static_cast<size_t>(world.rank())] = error.what();
    }
    // As bytes: what is no number is unlike itself.
    EXPECT_EQ(std::memcmp(kept.data(), weights.data(), weights.size_bytes()), 0)
        << "rank " << world.rank();
    EXPECT_EQ(state.m[0], kept_moment) << "rank " << world.rank();
    EXPECT_EQ(trainer.step(), 1);
  });
  return messages;
}

TEST(RankTrainerTest, ALossThatIsNoNumberStopsEveryRankBeforeTheUpdate) {
  const spec::Plan plan =
      SmallPlan({.tensor_parallel_size = 2, .pipeline_parallel_size = 2, .data_parallel_size = 2});
  for (const int broken_rank : {0, plan.num_devices - 1}) {
    for (const std::string& message : StepWithBrokenWeights(plan, broken_rank)) {
      EXPECT_THAT(message, AllOf(HasSubstr("step 2"), HasSubstr("nan"))) << broken_rank;
    }
  }
}

}  // namespace
}  // namespace tessera::engine
