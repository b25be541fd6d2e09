// Ranks that are processes train as threads do, to the bit. Threads stand for processes here, which
// share nothing but a file to meet by; tests/integration runs real ones.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <map>
#include <thread>
#include <vector>

#include "engine/comm/process_world.h"
#include "tests/testing/golden_training.h"
#include "tests/testing/layout_cover.h"
#include "tests/testing/trained_model.h"

namespace tessera::testing {
namespace {

namespace fs = std::filesystem;

// By path in the folder.
std::map<std::string, std::string> FilesIn(const fs::path& folder) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    std::ifstream file(entry.path(), std::ios::binary);
    files[fs::relative(entry.path(), folder).string()] = {std::istreambuf_iterator<char>(file), {}};
  }
  return files;
}

class ProcessBitsTest : public ::testing::Test {
 protected:
  ProcessBitsTest() {
    fs::remove_all(folder_);
    fs::create_directories(folder_);
  }
  ~ProcessBitsTest() override { fs::remove_all(folder_); }

  void SetUp() override {
    if (!engine::HasProcessWorld()) GTEST_SKIP() << "a build without Gloo";
  }

  // The losses by step; the checkpoint of the last one goes to `name`.
  std::vector<double> TrainOnThreadsInto(const std::string& name, engine::TrainOptions options) {
    std::vector<double> losses;
    options.save_dir = (folder_ / name).string();
    const std::atomic<bool> stop = false;
    engine::RunTraining(options, Recording(losses), stop);
    return losses;
  }
  std::vector<double> TrainOnProcessesInto(const std::string& name, engine::TrainOptions options) {
    std::vector<double> losses;
    options.save_dir = (folder_ / name).string();
    options.comm = engine::CommKind::kGloo;
    options.checks_calls = true;
    const std::atomic<bool> stop = false;
    const engine::MeetingPlace place = {.file = (folder_ / "meeting").string()};
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < options.plan.num_devices; ++rank) {
      ranks.emplace_back([&, rank] {
        const engine::ProcessRank process = {
            .rank = rank, .num_ranks = options.plan.num_devices, .launcher = "a test"};
        try {
          engine::RunTrainingRank(options, Recording(losses), stop, process, place);
        } catch (const std::exception& error) {
          ADD_FAILURE() << "rank " << rank << ": " << error.what();
        }
      });
    }
    ranks.clear();
    return losses;
  }

  const fs::path folder_ = fs::path(::testing::TempDir()) / "tessera_process_bits";

 private:
  static engine::TrainCallbacks Recording(std::vector<double>& losses) {
    return {
        .on_step = [&losses](const engine::StepRow& row) { losses.push_back(row.result.loss); }};
  }
};

TEST_F(ProcessBitsTest, GoldenCasesHaveTheLossesAndCheckpointsOfThreads) {
  const spec::ParallelSpec layouts[] = {
      {.tensor_parallel_size = 2, .micro_batch_size = 2},
      {.pipeline_parallel_size = 2, .micro_batch_size = 2},
      {.data_parallel_size = 2, .micro_batch_size = 2, .zero_stage = 1},
      {.tensor_parallel_size = 2, .data_parallel_size = 2, .micro_batch_size = 2, .zero_stage = 3},
      {.tensor_parallel_size = 2,
       .pipeline_parallel_size = 2,
       .micro_batch_size = 1,
       .sequence_parallel = true}};
  int num_trainings = 0;
  for (const GoldenCase& golden : LoadGoldenCases()) {
    for (const spec::ParallelSpec& parallel : layouts) {
      engine::TrainOptions options = GoldenOptions(golden, parallel);
      // With five layouts each of them meets either link in one case or another.
      const bool has_tcp = ++num_trainings % 2 == 0;
      options.host_link = has_tcp ? engine::HostLink::kTcp : engine::HostLink::kShared;
      SCOPED_TRACE(golden.name + " " + NameOf(parallel));
      if (!FindViolations(options.plan.model, options.plan.training, parallel,
                          options.plan.num_devices)
               .empty()) {
        continue;
      }
      const std::vector<double> expected = TrainOnThreadsInto("threads", options);
      ASSERT_EQ(expected.size(), golden.steps.size());
      EXPECT_EQ(TrainOnProcessesInto("processes", options), expected);
      const auto files = FilesIn(folder_ / "threads");
      EXPECT_GE(files.size(), 4U);
      EXPECT_TRUE(FilesIn(folder_ / "processes") == files);
    }
  }
}

// The four rows with the fewest ranks; `TESSERA_MOST_PROCESSES=16` for all of up to so many.
std::vector<CoverTraining> SmallRows() {
  std::vector<CoverTraining> rows = CoverOfLayouts().trainings;
  const char* const most = std::getenv("TESSERA_MOST_PROCESSES");
  if (most != nullptr) {
    std::erase_if(rows, [most_ranks = std::atoi(most)](const CoverTraining& row) {
      return row.plan.num_devices > most_ranks;
    });
    return rows;
  }
  std::stable_sort(rows.begin(), rows.end(), [](const CoverTraining& a, const CoverTraining& b) {
    return a.plan.num_devices < b.plan.num_devices;
  });
  rows.resize(4);
  return rows;
}

TEST_F(ProcessBitsTest, SmallRowsOfTheCoverComputeWhatThreadsDo) {
  const std::vector<CoverTraining> rows = SmallRows();
  std::map<int, int> num_rows;  // by number of ranks
  for (size_t row = 0; row < rows.size(); ++row) {
    const CoverTraining& training = rows[row];
    SCOPED_TRACE(training.name);
    ++num_rows[training.plan.num_devices];
    const TrainedModel expected = TrainOnThreads(training.plan);
    const CommBackend link = row % 2 == 0 ? CommBackend::kShared : CommBackend::kTcp;
    const TrainedModel actual = TrainOver(link, training.plan);
    EXPECT_EQ(actual.losses, expected.losses);
    EXPECT_EQ(actual.grad_norms, expected.grad_norms);
    ASSERT_EQ(actual.weights.size(), expected.weights.size());
    for (const auto& [name, tensor] : expected.weights) {
      EXPECT_TRUE(actual.weights.at(name).values == tensor.values) << name;
    }
  }
  for (const auto& [num_ranks, count] : num_rows) {
    std::cout << count << " rows of " << num_ranks << " ranks\n";
  }
}

}  // namespace
}  // namespace tessera::testing
