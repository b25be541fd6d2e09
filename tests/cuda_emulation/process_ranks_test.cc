// Ranks that are processes of their own, as torchrun, mpirun and srun start them: threads stand for
// processes here, which share nothing but a file to meet by and NCCL.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <string>

#include "cost_model/base/error.h"
#include "tests/cuda_emulation/doubles_testing.h"
#include "tests/testing/golden_training.h"

namespace tessera::testing {
namespace {

class ProcessRanksTest : public ::testing::Test {
 protected:
  ProcessRanksTest() { std::filesystem::remove(place_.file); }
  ~ProcessRanksTest() override { std::filesystem::remove(place_.file); }

  engine::TrainOptions Options(const spec::ParallelSpec& parallel) const {
    engine::TrainOptions options = GoldenOptions(golden_, parallel);
    options.device = engine::DeviceKind::kCuda;
    options.comm = engine::CommKind::kNccl;
    return options;
  }

  const GoldenCase golden_ = LoadGoldenCases().front();
  const engine::MeetingPlace place_{.file = ::testing::TempDir() + "tessera_process_ranks_" +
                                            std::to_string(getpid())};
};

TEST_F(ProcessRanksTest, TrainAsTheReferenceAndRankZeroTells) {
  const engine::TrainOptions options =
      Options({.tensor_parallel_size = 2, .data_parallel_size = 2, .micro_batch_size = 2});
  std::vector<double> losses;
  std::vector<engine::TrainReport> reports(4);
  const std::atomic<bool> stop = false;
  cuda_emulation::testing::RunRanks(4, [&](int rank) {
    const engine::TrainCallbacks callbacks{.on_step = [&](const engine::StepRow& row) {
      EXPECT_EQ(rank, 0);
      losses.push_back(row.result.loss);
    }};
    reports[static_cast<size_t>(rank)] = engine::RunTrainingRank(
        options, callbacks, stop, {.rank = rank, .num_ranks = 4, .launcher = "a test"}, place_);
  });
  ASSERT_EQ(losses.size(), golden_.steps.size());
  for (size_t i = 0; i < losses.size(); ++i) {
    ExpectClose(losses[i], golden_.steps[i].loss, kFp32Tolerance.loss, "loss");
  }
  EXPECT_EQ(reports[0].ranks.size(), 4U);
  EXPECT_EQ(reports[1].last_step, 0);
}

TEST_F(ProcessRanksTest, AreAsManyAsThePlanHasDevices) {
  const std::atomic<bool> stop = false;
  try {
    engine::RunTrainingRank(Options({.data_parallel_size = 2}), {}, stop,
                            {.rank = 0, .num_ranks = 3, .launcher = "torchrun"}, place_);
    FAIL() << "three processes for two devices";
  } catch (const base::ConfigError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("torchrun: found 3 processes, expected 2"));
  }
}

TEST_F(ProcessRanksTest, ComputeOnGpusOfTheirOwn) {
  engine::TrainOptions options = Options({.data_parallel_size = 2});
  options.comm = engine::CommKind::kThread;
  const std::atomic<bool> stop = false;
  try {
    engine::RunTrainingRank(options, {}, stop, {.rank = 0, .num_ranks = 2, .launcher = "srun"},
                            place_);
    FAIL() << "processes without NCCL";
  } catch (const base::ConfigError& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("ranks with --device cuda --comm nccl"));
  }
}

}  // namespace
}  // namespace tessera::testing
