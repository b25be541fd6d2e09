#include "engine/train/straggler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/train/run_report.h"
#include "tests/testing/counting_source.h"
#include "tests/testing/faulty_device.h"
#include "tests/testing/run_ranks.h"

namespace tessera::engine {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(StragglerTest, IsTheRankFarthestAboveTheMedianOfItsOwnStage) {
  // The second stage has more to do: none of its ranks is slow for that.
  const auto slowest = FindStraggler({{0, 1.0}, {0, 1.1}, {0, 1.5}, {1, 3.0}, {1, 3.0}, {1, 3.3}});
  ASSERT_TRUE(slowest.has_value());
  EXPECT_EQ(slowest->rank, 2);
  EXPECT_DOUBLE_EQ(slowest->median_s, 1.05);  // of 1.0 and 1.1
  EXPECT_DOUBLE_EQ(slowest->compute_s, 1.5);
  const auto warning = StragglerWarning(*slowest, {.data = 2}, /*step_time_s=*/4.5);
  ASSERT_TRUE(warning.has_value());
  // (1.5 - 1.05) / 4.5
  EXPECT_THAT(warning->what, AllOf(HasSubstr("rank 2 (pp 0, dp 2, "), HasSubstr("1.43 times"),
                                   HasSubstr("10 % of the step")));
}

TEST(StragglerTest, SmallDifferencesAreNoWarning) {
  EXPECT_FALSE(StragglerWarning(FindStraggler({{0, 1.0}, {0, 1.19}}).value(), {}, 2));
  // Twice as long, but next to nothing of the step.
  EXPECT_FALSE(StragglerWarning(FindStraggler({{0, 0.01}, {0, 0.02}}).value(), {}, 2));
}

TEST(StragglerTest, RanksWithoutPeersOrTimesAreNotCompared) {
  EXPECT_FALSE(FindStraggler({{0, 1}, {1, 9}}).has_value());
  EXPECT_FALSE(FindStraggler({{0, 0}, {0, 0}}).has_value());
  EXPECT_FALSE(FindStraggler({}).has_value());
}

TEST(StragglerTest, ASlowRankIsNamedWithItsShare) {
  spec::Plan plan{.model = {.name = "small",
                            .num_layers = 2,
                            .hidden_size = 16,
                            .num_attention_heads = 2,
                            .num_key_value_heads = 2,
                            .head_dim = 8,
                            .ffn_hidden_size = 32,
                            .vocab_size = 64,
                            .max_sequence_length = 8},
                  .parallel = {.data_parallel_size = 4},
                  .num_devices = 4,
                  .threads_per_rank = 1};
  plan.training = {.global_batch_size = 4,
                   .sequence_length = 8,
                   .steps = 3,
                   .precision = spec::Precision::kFp32};
  constexpr int kSlow = 2;
  constexpr double kDelayS = 2e-3;  // of each product: far beyond what a busy machine adds
  const testing::CountingSource source(8, 64);
  std::optional<spec::StepWarning> warning;
  testing::RunRanks(plan.num_devices, [&](Communicator& world) {
    const auto device =
        world.rank() == kSlow ? testing::MakeSlowDevice(world, kDelayS) : MakeRankDevice({}, world);
    RankTrainer trainer(plan, *device, world, source);
    RunRecorder recorder(plan, 0);
    for (int step = 0; step < 3; ++step) recorder.Add(trainer.Step(false));
    const TrainReport report = recorder.Collect(trainer, world);
    if (world.rank() == 0 && report.straggler) {
      const size_t rank = static_cast<size_t>(report.straggler->rank);
      warning = StragglerWarning(*report.straggler, report.ranks[rank].coord,
                                 report.measured.step_time_s);
    }
  });
  ASSERT_TRUE(warning.has_value());
  EXPECT_THAT(warning->what,
              AllOf(HasSubstr("rank 2 (pp 0, dp 2, cp 0, tp 0)"), HasSubstr("% of the step")));
}

}  // namespace
}  // namespace tessera::engine
