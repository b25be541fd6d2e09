// Ranks that are processes: the same numbers as threads, and what comes out when one is lost.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <thread>

#include "cost_model/base/check.h"
#include "tests/integration/small_job.h"

namespace tessera::testing {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;
using Clock = std::chrono::steady_clock;

std::string ReadAll(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// The processes of the ranks that `launcher` has started, by rank.
std::map<int, pid_t> RanksOf(pid_t launcher) {
  std::map<int, pid_t> ranks;
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    pid_t pid = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ec != std::errc()) continue;
    // "pid (name) state parent ...".
    const std::string stat = ReadAll(entry.path() / "stat");
    const size_t behind_name = stat.rfind(')');
    if (behind_name == std::string::npos ||
        std::atoi(stat.c_str() + std::min(stat.size(), behind_name + 4)) != launcher) {
      continue;
    }
    const std::string environment = std::string(1, '\0') + ReadAll(entry.path() / "environ");
    const std::string variable = std::string(1, '\0') + "TESSERA_RANK=";
    const size_t at = environment.find(variable);
    if (at == std::string::npos) continue;
    ranks[std::atoi(environment.c_str() + at + variable.size())] = pid;
  }
  return ranks;
}

// What has a name in shared memory, of other programs than an MPI that may run beside.
std::set<fs::path> SharedMemoryFiles() {
  std::set<fs::path> files;
  for (const auto& entry : fs::directory_iterator("/dev/shm")) {
    const std::string name = entry.path().filename();
    if (name.find("vader") == std::string::npos) files.insert(entry.path());
  }
  return files;
}

template <typename Condition>
bool Await(const Condition& condition) {
  const Clock::time_point end = Clock::now() + std::chrono::seconds(60);
  while (!condition()) {
    if (Clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

class ProcessRunTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    MakeSmallJob(*folder_);
    PlanSmall(kTensorAndPipeline, "plan.json", *folder_);
    PlanSmall("--dp 4 --zero-stage 1 --micro-batch-size 2", "dp4.json", *folder_);
  }
  static void TearDownTestSuite() { folder_.reset(); }
  void SetUp() override {
    const CommandResult result =
        RunCommand(TrainOnCorpus("--plan plan.json --comm gloo --steps 1"), *folder_);
    if (result.err.find("without Gloo") != std::string::npos) {
      GTEST_SKIP() << "a build without Gloo";
    }
  }

  // A run that has done some steps and would go on for long, and its ranks.
  struct LongRun {
    std::unique_ptr<RunningCommand> command;
    std::map<int, pid_t> ranks;
  };
  static LongRun StartLongRun(const std::string& rest) {
    fs::remove(folder_->Path("long.jsonl"));
    LongRun run;
    run.command = std::make_unique<RunningCommand>(
        TrainOnCorpus("--comm gloo --steps 1000000 --metrics long.jsonl " + rest), *folder_);
    const bool has_begun = Await([] { return ReadRowCount() >= 3; });
    run.ranks = RanksOf(run.command->pid());
    // What would be struck instead of a rank that is not there is this process.
    if (!has_begun || run.ranks.size() != 4) {
      run.command->Interrupt();
      throw std::runtime_error(base::Concat(run.ranks.size(), " of 4 ranks, ", ReadRowCount(),
                                            " steps: ", run.command->Wait().err));
    }
    return run;
  }
  static int64_t ReadRowCount() {
    const std::string rows = ReadAll(folder_->Path("long.jsonl"));
    return std::count(rows.begin(), rows.end(), '\n');
  }
  static void ExpectNoneLeft(const LongRun& run) {
    for (const auto& [rank, pid] : run.ranks) EXPECT_NE(kill(pid, 0), 0) << "rank " << rank;
  }
  // The line on stderr by which each rank tells why it ends.
  static std::string ErrorOf(int rank, const CommandResult& result) {
    const std::string begin = base::Concat("[", rank, "] tessera: error: ");
    const size_t at = result.err.find(begin);
    if (at == std::string::npos) return "";
    return result.err.substr(at + begin.size(), result.err.find('\n', at) - at - begin.size());
  }

  static std::unique_ptr<TemporaryFolder> folder_;
};

std::unique_ptr<TemporaryFolder> ProcessRunTest::folder_;

TEST_F(ProcessRunTest, ProcessesTrainAsThreadsToTheBit) {
  for (const std::string plan : {"plan.json", "dp4.json"}) {
    const std::string rest = " --steps 6 --plan " + plan;
    RunWell(TrainOnCorpus("--metrics threads.jsonl --save threads" + rest), *folder_);
    for (const std::string link : {"shm", "tcp"}) {
      RunWell(
          TrainOnCorpus("--metrics processes.jsonl --save processes -n 4 --comm gloo --host-link " +
                        link + rest),
          *folder_);
      ExpectSameLosses(ReadRows("processes.jsonl", *folder_), ReadRows("threads.jsonl", *folder_),
                       0);
      for (const auto& entry : fs::directory_iterator(folder_->Path("threads/step_00000006"))) {
        const fs::path other =
            fs::path(folder_->Path("processes/step_00000006")) / entry.path().filename();
        EXPECT_TRUE(ReadAll(entry.path()) == ReadAll(other)) << link << ' ' << entry.path();
      }
      fs::remove_all(folder_->Path("processes"));
    }
  }
}

TEST_F(ProcessRunTest, RankZeroReportsAndEachLineOfTheOthersHasTheirRank) {
  const CommandResult result = RunCommand(
      "train --data corpus --plan plan.json --steps 2 --comm gloo --format json", *folder_);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(nlohmann::json::parse(result.out)["ranks"].size(), 4U);
  EXPECT_THAT(result.err, HasSubstr("[0] step"));
}

TEST_F(ProcessRunTest, AKilledRankIsNamedByAll) {
  const std::set<fs::path> shared_before = SharedMemoryFiles();
  for (const auto& [victim, link] : {std::pair(2, "shm"), {0, "shm"}, {2, "tcp"}}) {
    LongRun run = StartLongRun(
        base::Concat("--plan plan.json --save killed --save-interval 1 --host-link ", link));
    kill(run.ranks[victim], SIGKILL);
    const Clock::time_point start = Clock::now();
    const CommandResult result = run.command->Wait();
    EXPECT_LT(Clock::now() - start, std::chrono::seconds(10));
    EXPECT_EQ(result.exit_code, 128 + SIGKILL) << result.err;
    const std::string name = "rank " + std::to_string(victim);
    EXPECT_THAT(result.err, HasSubstr(name + " of 4 was ended by signal 9 (Killed)"));
    for (const auto& [rank, pid] : run.ranks) {
      if (rank == victim) continue;
      EXPECT_THAT(ErrorOf(rank, result), AllOf(HasSubstr(", step "), HasSubstr(name),
                                               HasSubstr("is gone: its process has ended"),
                                               HasSubstr("flight-record-rank-")))
          << result.err;
      EXPECT_THAT(folder_->Read("killed/flight-record-rank-" + std::to_string(rank) + ".txt"),
                  AllOf(HasSubstr("is gone"), HasSubstr("all_reduce #")));
    }
    ExpectNoneLeft(run);
    EXPECT_EQ(SharedMemoryFiles(), shared_before);
  }
}

TEST_F(ProcessRunTest, AStoppedRankIsNamedWhenItsPeersTimeOut) {
  for (const auto& [victim, link] : {std::pair(3, "shm"), {0, "tcp"}}) {
    LongRun run = StartLongRun(base::Concat("--plan dp4.json --timeout 2 --host-link ", link));
    kill(run.ranks[victim], SIGSTOP);
    const Clock::time_point start = Clock::now();
    // Survivors end within the timeout and two seconds; the launcher then kills the other.
    for (const auto& [rank, pid] : run.ranks) {
      if (rank == victim) continue;
      EXPECT_TRUE(Await([&, child = pid] {
        const std::string stat = ReadAll("/proc/" + std::to_string(child) + "/stat");
        return stat.empty() || stat.find(") Z ") != std::string::npos;
      }));
    }
    EXPECT_LT(Clock::now() - start, std::chrono::milliseconds(4500));
    const CommandResult result = run.command->Wait();
    EXPECT_EQ(result.exit_code, 75) << result.err;
    for (const auto& [rank, pid] : run.ranks) {
      if (rank == victim) continue;
      EXPECT_THAT(ErrorOf(rank, result),
                  AllOf(HasSubstr("timed out after 2 s"),
                        HasSubstr("rank " + std::to_string(victim) + " does not respond")))
          << result.err;
    }
    ExpectNoneLeft(run);
  }
}

TEST_F(ProcessRunTest, TheOtherRanksGoWithTheLauncher) {
  LongRun run = StartLongRun("--plan plan.json");
  kill(run.command->pid(), SIGKILL);
  run.command->Wait();
  for (const auto& [rank, pid] : run.ranks) {
    EXPECT_TRUE(Await([child = pid] { return kill(child, 0) != 0; })) << "rank " << rank;
  }
}

TEST_F(ProcessRunTest, ASignalToTheLauncherOrARankFinishesTheStepAndSaves) {
  for (const bool to_launcher : {true, false}) {
    LongRun run = StartLongRun("--plan plan.json --save stopped");
    kill(to_launcher ? run.command->pid() : run.ranks[1], SIGTERM);
    const CommandResult result = run.command->Wait();
    EXPECT_EQ(result.exit_code, 0) << result.err;
    const int64_t step = ReadRowCount();
    EXPECT_EQ(RunForJson("checkpoint inspect stopped", *folder_)["step"], step);
    RunWell("checkpoint verify stopped", *folder_);
    fs::remove_all(folder_->Path("stopped"));
    ExpectNoneLeft(run);
  }
}

TEST_F(ProcessRunTest, ARankThatNeverComesIsNamed) {
  setenv("TESSERA_RANK", "0", 1);
  setenv("TESSERA_NUM_RANKS", "4", 1);
  setenv("TESSERA_MEETING_FILE", folder_->Path("meeting").c_str(), 1);
  const Clock::time_point start = Clock::now();
  const CommandResult result = RunCommand(
      TrainOnCorpus("--plan plan.json --steps 1 --init-timeout 1 --comm gloo"), *folder_);
  for (const char* name : {"TESSERA_RANK", "TESSERA_NUM_RANKS", "TESSERA_MEETING_FILE"}) {
    unsetenv(name);
  }
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(3));
  EXPECT_EQ(result.exit_code, 75);
  ASSERT_EQ(result.ErrorLines().size(), 1U) << result.err;
  EXPECT_THAT(result.ErrorLines()[0], HasSubstr("ranks 1-3 of 4 did not come"));
}

TEST_F(ProcessRunTest, ARestartedRunEndsWithTheCurveOfAnUndisturbedOne) {
  const std::string rest = " --plan plan.json --steps 60 --save-interval 5 ";
  RunWell(TrainOnCorpus("--metrics calm.jsonl --save calm" + rest), *folder_);
  for (const int victim : {1, 0}) {
    fs::remove_all(folder_->Path("restarted"));
    fs::remove(folder_->Path("restarted.jsonl"));
    RunningCommand command(
        TrainOnCorpus("--comm gloo --restart 2 --metrics restarted.jsonl --save restarted" + rest),
        *folder_);
    ASSERT_TRUE(Await([] { return fs::exists(folder_->Path("restarted/step_00000010")); }));
    kill(RanksOf(command.pid()).at(victim), SIGKILL);
    const CommandResult result = command.Wait();
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.err, HasSubstr("restart 1 of 2 from restarted/step_"));
    const auto rows = ReadRows("restarted.jsonl", *folder_);
    const auto expected = ReadRows("calm.jsonl", *folder_);
    ASSERT_EQ(rows.size(), expected.size());
    ExpectSameLosses(rows, expected, 0);
  }
}

TEST_F(ProcessRunTest, WrongInputIsNotTriedAgain) {
  const CommandResult result = RunCommand(
      "train --plan plan.json --steps 1 --comm gloo --data nothing --save no --restart 5",
      *folder_);
  EXPECT_EQ(result.exit_code, 2) << result.err;
  EXPECT_THAT(result.err, Not(HasSubstr("restart")));
}

TEST_F(ProcessRunTest, RanksAreAsManyAsThePlanHasDevices) {
  const CommandResult result =
      RunCommand(TrainOnCorpus("--plan plan.json -n 3 --comm gloo"), *folder_);
  EXPECT_EQ(result.exit_code, 2);
  ASSERT_EQ(result.ErrorLines().size(), 1U) << result.err;
  EXPECT_THAT(result.ErrorLines()[0], HasSubstr("found 3, expected 4"));
}

}  // namespace
}  // namespace tessera::testing
