// Training processes that are killed while they save: what they leave behind is always good.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <random>
#include <set>
#include <thread>

#include "tests/integration/small_job.h"

namespace tessera::testing {
namespace {

namespace fs = std::filesystem;

constexpr int kSavedSteps = 12;

// A few here; `TESSERA_NUM_KILLS=100` for more.
int NumKills() {
  const char* const text = std::getenv("TESSERA_NUM_KILLS");
  return text == nullptr ? 8 : std::atoi(text);
}

std::string NameOfStep(int step) {
  std::string digits = std::to_string(step);
  return "step_" + std::string(8 - digits.size(), '0') + digits;
}

class KilledSaveTest : public ::testing::Test {
 protected:
  void SetUp() override {
    MakeSmallJob(folder_);
    PlanSmall(kTensorAndPipeline, "plan.json", folder_);
    RunWell(Train() + "--save undisturbed", folder_);
    for (int step = 1; step <= kSavedSteps; ++step) {
      undisturbed_[NameOfStep(step)] = FilesOf("undisturbed/" + NameOfStep(step));
    }
  }

  static std::string Train() {
    return "train --plan plan.json --data corpus --hyperparameters train.json --quiet "
           "--save-interval 1 --steps " +
           std::to_string(kSavedSteps) + " ";
  }

  std::map<std::string, std::string> FilesOf(const std::string& checkpoint) const {
    std::map<std::string, std::string> files;
    for (const auto& entry : fs::directory_iterator(folder_.Path(checkpoint))) {
      const std::string name = entry.path().filename().string();
      files[name] = folder_.Read(checkpoint + "/" + name);
    }
    return files;
  }

  // Names in the save folder that begin a save or a removal.
  bool IsSaving() const {
    std::error_code ignored;
    for (fs::directory_iterator entry(folder_.Path("save"), ignored), end; entry != end;
         entry.increment(ignored)) {
      if (entry->path().filename().string().find(".tmp-") != std::string::npos) return true;
    }
    return false;
  }

  // The checkpoints that count, each of which must be the undisturbed run's.
  std::set<std::string> CheckedCheckpoints() const {
    std::set<std::string> names;
    if (!fs::exists(folder_.Path("save"))) return names;
    for (const auto& entry : fs::directory_iterator(folder_.Path("save"))) {
      const std::string name = entry.path().filename().string();
      if (!fs::exists(entry.path() / "COMPLETE") || name.find(".tmp-") != std::string::npos) {
        continue;
      }
      names.insert(name);
      EXPECT_TRUE(FilesOf("save/" + name) == undisturbed_.at(name)) << name;
    }
    return names;
  }

  TemporaryFolder folder_;
  std::map<std::string, std::map<std::string, std::string>> undisturbed_;
};

TEST_F(KilledSaveTest, AKilledProcessAlwaysLeavesTheCheckpointsOfAnUndisturbedRun) {
  std::mt19937 random(20240326);
  const auto up_to = [&](int limit) {
    return std::uniform_int_distribution<int>(0, limit)(random);
  };
  int num_killed = 0;
  int num_saving = 0;  // of these, with a save under way
  std::set<std::string> before;
  const int num_kills = NumKills();
  for (int trial = 0; num_killed < num_kills; ++trial) {
    ASSERT_LT(trial, 20 * num_kills) << "the runs end before they are killed";
    const bool is_asynchronous = trial % 2 == 1;
    RunningCommand command(Train() + "--save save --keep-last 2 " +
                               (is_asynchronous ? "--async-save " : "") +
                               (before.empty() ? "" : "--resume save"),
                           folder_);
    // The first saves of this process, then at a random moment of one of the next.
    for (int num_saves = up_to(2); num_saves >= 0 && !command.HasEnded(); --num_saves) {
      while (!IsSaving() && !command.HasEnded()) std::this_thread::yield();
      if (num_saves > 0)
        while (IsSaving() && !command.HasEnded()) std::this_thread::yield();
    }
    std::this_thread::sleep_for(std::chrono::microseconds(up_to(20'000)));
    const bool is_killed = !command.HasEnded();
    command.Kill();
    const CommandResult result = command.Wait();
    const std::set<std::string> after = CheckedCheckpoints();
    if (is_killed) {
      num_saving += IsSaving() ? 1 : 0;
      num_killed += result.exit_code == -1 ? 1 : 0;
    } else {
      EXPECT_EQ(result.exit_code, 0) << result.err;
    }
    // Once there was a checkpoint, there is one, as new at least, and the newest can be taken.
    EXPECT_LE(after.size(), 3U);
    if (!before.empty()) {
      ASSERT_FALSE(after.empty());
      EXPECT_GE(*after.rbegin(), *before.rbegin());
    }
    if (!after.empty()) RunWell("checkpoint verify save --quiet", folder_);
    before = after;
    if (!after.empty() && *after.rbegin() == NameOfStep(kSavedSteps)) {
      fs::remove_all(folder_.Path("save"));
      before.clear();
    }
  }
  std::cout << num_killed << " processes killed, " << num_saving << " of them while they saved\n";
  EXPECT_GT(num_saving, num_kills / 4) << "of " << num_killed;
}

}  // namespace
}  // namespace tessera::testing
