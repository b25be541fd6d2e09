// Runs that stop and go on: at a checkpoint, under another layout, after Ctrl-C.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <memory>
#include <thread>

#include "tests/integration/small_job.h"

namespace tessera::testing {
namespace {

using ::testing::HasSubstr;

// A loss in fp32 under another order of sums, after a few steps.
constexpr double kOtherLayoutTolerance = 1e-5;

// Waits until the metrics file holds `num_rows` whole rows; false when the command ends before.
bool WaitForRows(size_t num_rows, const std::string& name, const TemporaryFolder& folder,
                 RunningCommand& command) {
  while (!command.HasEnded()) {
    if (std::filesystem::exists(folder.Path(name))) {
      const std::string text = folder.Read(name);
      if (static_cast<size_t>(std::count(text.begin(), text.end(), '\n')) >= num_rows) return true;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

class ResumeTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    MakeSmallJob(*folder_);
    PlanSmall(kTensorAndPipeline, "plan.json", *folder_);
    PlanSmall("--dp 4 --zero-stage 1 --micro-batch-size 2", "dp4.json", *folder_);
    PlanSmall("--tp 4 --sequence-parallel true --micro-batch-size 4", "tp4.json", *folder_);
    RunWell(TrainOnCorpus("--plan plan.json --steps 12 --metrics whole.jsonl --save whole "
                          "--save-interval 4"),
            *folder_);
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static std::unique_ptr<TemporaryFolder> folder_;
};

std::unique_ptr<TemporaryFolder> ResumeTest::folder_;

TEST_F(ResumeTest, OtherLayoutsGoOnWhereTheRunStood) {
  RunWell(
      TrainOnCorpus("--plan dp4.json --steps 12 --resume whole/step_00000004 --metrics dp4.jsonl "
                    "--save dp4 --save-interval 4"),
      *folder_);
  RunWell(
      TrainOnCorpus("--plan tp4.json --steps 12 --resume dp4/step_00000008 --metrics tp4.jsonl"),
      *folder_);
  const std::vector<nlohmann::json> whole = ReadRows("whole.jsonl", *folder_);
  const std::vector<nlohmann::json> dp4 = ReadRows("dp4.jsonl", *folder_);
  const std::vector<nlohmann::json> tp4 = ReadRows("tp4.jsonl", *folder_);
  ASSERT_EQ(dp4.size(), 8U);
  ASSERT_EQ(tp4.size(), 4U);
  EXPECT_EQ(dp4.front()["step"], 5);
  EXPECT_EQ(tp4.front()["step"], 9);
  EXPECT_EQ(tp4.back()["consumed_samples"], 12 * kSmallBatchSize);
  ExpectSameLosses(dp4, whole, kOtherLayoutTolerance);
  ExpectSameLosses(tp4, whole, kOtherLayoutTolerance);
}

TEST_F(ResumeTest, SameLayoutGoesOnBitForBit) {
  RunWell(
      TrainOnCorpus("--plan plan.json --steps 12 --resume whole/step_00000008 --metrics same.jsonl "
                    "--save same"),
      *folder_);
  ExpectSameLosses(ReadRows("same.jsonl", *folder_), ReadRows("whole.jsonl", *folder_), 0);
  RunWell("checkpoint convert --from whole --to hf:whole-hf --quiet", *folder_);
  RunWell("checkpoint convert --from same --to hf:same-hf --quiet", *folder_);
  EXPECT_TRUE(folder_->Read("whole-hf/model.safetensors") ==
              folder_->Read("same-hf/model.safetensors"));
}

TEST_F(ResumeTest, TheBatchSizeMayChange) {
  // 15 samples of 32 tokens: epochs are laid out as far as the whole run reads.
  folder_->Write("little.u8", folder_->Read("text.txt").substr(0, 500));
  const std::string rest =
      " --data little.u8 --data-format raw-u8 --hyperparameters train.json --quiet ";
  const auto plan = [&](int global_batch_size) {
    RunWell(
        "plan --model model.json --cluster local-cpu --devices 2 --seq-length 32 --quiet "
        "--global-batch-size " +
            std::to_string(global_batch_size) + " --out batch.json",
        *folder_);
  };
  plan(16);
  RunWell("train --plan batch.json --steps 4 --save batch" + rest, *folder_);
  plan(8);
  RunWell("train --plan batch.json --steps 6 --resume batch --metrics batch.jsonl" + rest,
          *folder_);
  const std::vector<nlohmann::json> rows = ReadRows("batch.jsonl", *folder_);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0]["consumed_samples"], 4 * 16 + 8);
  EXPECT_EQ(rows[1]["consumed_samples"], 4 * 16 + 2 * 8);
}

TEST_F(ResumeTest, TheCheckpointTakenIsTold) {
  const CommandResult result = RunCommand(
      "train --data corpus --hyperparameters train.json --plan dp4.json --steps 13 --resume whole",
      *folder_);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, HasSubstr("resumed from whole/step_00000012 at step 12\n"));
}

// Copies the checkpoints of the whole run, the newest with a file cut short, whose name is
// returned.
std::string CopyWithCutFile(const std::string& name, const TemporaryFolder& folder) {
  std::filesystem::copy(folder.Path("whole"), folder.Path(name),
                        std::filesystem::copy_options::recursive);
  const std::string file = name + "/step_00000012/rank_00003.safetensors";
  folder.Write(file, folder.Read(file).substr(0, 1000));
  return file;
}

TEST_F(ResumeTest, ADamagedCheckpointThatIsNamedItselfIsRefused) {
  const std::string file = CopyWithCutFile("cut", *folder_);
  const CommandResult result = RunCommand(
      "train --data corpus --plan plan.json --steps 13 --resume cut/step_00000012", *folder_);
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, AllOf(HasSubstr(file), Not(HasSubstr("resumed"))));
}

TEST_F(ResumeTest, ADamagedNewestCheckpointIsPassedOverWithOneLine) {
  const std::string file = CopyWithCutFile("torn", *folder_);
  const CommandResult result = RunCommand(
      TrainOnCorpus("--plan plan.json --steps 12 --resume torn --save torn --keep-last 2 "
                    "--metrics torn.jsonl"),
      *folder_);
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.err, AllOf(HasSubstr("tessera: warning: passed over torn/step_00000012: "),
                                HasSubstr(file)));
  EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  EXPECT_EQ(ReadRows("torn.jsonl", *folder_).front()["step"], 9);
  ExpectSameLosses(ReadRows("torn.jsonl", *folder_), ReadRows("whole.jsonl", *folder_), 0);
  RunWell("checkpoint verify torn", *folder_);
  EXPECT_FALSE(std::filesystem::exists(folder_->Path("torn/step_00000004")));
  EXPECT_TRUE(std::filesystem::exists(folder_->Path("torn/step_00000008")));
}

TEST_F(ResumeTest, AVanishedFolderStopsTheRunOrLetsItGoOnAsAsked) {
  const std::string flags =
      "--plan plan.json --save gone --save-interval 1 --data-order sequential ";
  for (const std::string choice : {"stop", "continue"}) {
    const std::string metrics = choice + ".jsonl";
    RunningCommand command(TrainOnCorpus(flags + "--steps 1000000 --on-save-error " + choice +
                                         " --metrics " + metrics),
                           *folder_);
    ASSERT_TRUE(WaitForRows(3, metrics, *folder_, command)) << command.Wait().err;
    std::filesystem::rename(folder_->Path("gone"), folder_->Path("gone-" + choice));
    if (choice == "continue") {
      const size_t num_rows = ReadRows(metrics, *folder_).size();
      ASSERT_TRUE(WaitForRows(num_rows + 4, metrics, *folder_, command)) << command.Wait().err;
      command.Interrupt();
    }
    const CommandResult result = command.Wait();
    EXPECT_EQ(result.exit_code, 1) << result.err;  // the last save counts in any case
    ASSERT_EQ(result.ErrorLines().size(), 1U) << result.err;
    EXPECT_THAT(result.ErrorLines()[0], AllOf(HasSubstr("gone"), HasSubstr("No such file")));
    const bool warns = result.err.find("tessera: warning: ") != std::string::npos;
    EXPECT_EQ(warns, choice == "continue") << result.err;
    RunWell("checkpoint verify gone-" + choice, *folder_);
  }
}

TEST_F(ResumeTest, ARunThatDivergesStopsAndKeepsItsLastCheckpoint) {
  // Adam's first step is the learning rate's size: the weights' products overflow in the second.
  folder_->Write("wild.json", R"({"lr": 1e30, "lr_decay_style": "constant"})");
  for (const std::string save : {"wild", "wild-behind --async-save"}) {
    const std::string folder = save.substr(0, save.find(' '));
    const CommandResult result = RunCommand(
        "train --data corpus --plan plan.json --hyperparameters wild.json --quiet --steps 12 "
        "--save-interval 1 --metrics wild.jsonl --save " +
            save,
        *folder_);
    EXPECT_EQ(result.exit_code, 1);
    ASSERT_EQ(result.ErrorLines().size(), 1U) << result.err;
    EXPECT_THAT(result.ErrorLines()[0], AllOf(HasSubstr("diverged at step 2"), HasSubstr("nan")));
    EXPECT_EQ(ReadRows("wild.jsonl", *folder_).size(), 1U);
    EXPECT_EQ(RunForJson("checkpoint inspect " + folder, *folder_)["step"], 1);
    RunWell("checkpoint verify " + folder, *folder_);
  }
}

TEST_F(ResumeTest, AFullDiskForMetricsEndsTheRun) {
  const CommandResult result =
      RunCommand(TrainOnCorpus("--plan plan.json --steps 12 --metrics /dev/full"), *folder_);
  EXPECT_EQ(result.exit_code, 1);
  ASSERT_EQ(result.ErrorLines().size(), 1U) << result.err;
  EXPECT_THAT(result.ErrorLines()[0], AllOf(HasSubstr("/dev/full"), HasSubstr("No space left")));
}

TEST_F(ResumeTest, AFinishedRunHasNothingToDo) {
  EXPECT_THAT(RunWell(TrainOnCorpus("--plan plan.json --steps 12 --resume whole"), *folder_),
              HasSubstr("Nothing to do"));
}

TEST_F(ResumeTest, ACheckpointOfAnotherModelIsRefused) {
  folder_->WriteEdited("model.json", "wider.json", "\"ffn_hidden_size\": 128",
                       "\"ffn_hidden_size\": 256");
  RunWell(
      "plan --model wider.json --cluster local-cpu --devices 1 --seq-length 32 "
      "--global-batch-size 8 --quiet --out wider-plan.json",
      *folder_);
  const CommandResult result =
      RunCommand(TrainOnCorpus("--plan wider-plan.json --steps 13 --resume whole"), *folder_);
  EXPECT_EQ(result.exit_code, 2);
  ASSERT_EQ(result.ErrorLines().size(), 1U) << result.err;
  EXPECT_THAT(result.ErrorLines()[0], AllOf(HasSubstr("whole"), HasSubstr("ffn_hidden_size")));
}

TEST_F(ResumeTest, AnInterruptFinishesTheStepAndSavesAndTheRunGoesOn) {
  const std::string sequential = "--plan plan.json --data-order sequential ";
  RunningCommand command(
      TrainOnCorpus(sequential +
                    "--steps 1000000 --metrics stopped.jsonl --save stopped --save-interval 5 "
                    "--async-save --keep-last 1"),
      *folder_);
  ASSERT_TRUE(WaitForRows(3, "stopped.jsonl", *folder_, command)) << command.Wait().err;
  command.Interrupt();
  const CommandResult result = command.Wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("(stopped)"));
  const int stopped_at = ReadRows("stopped.jsonl", *folder_).back()["step"];
  const nlohmann::json saved = RunForJson("checkpoint inspect stopped", *folder_);
  EXPECT_EQ(saved["step"], stopped_at);
  const std::filesystem::directory_iterator checkpoints(folder_->Path("stopped"));
  EXPECT_EQ(std::distance(checkpoints, {}), 1) << "not that of the interrupt alone";
  EXPECT_EQ(saved["consumed_samples"], stopped_at * kSmallBatchSize);

  const std::string steps = "--steps " + std::to_string(stopped_at + 3);
  RunWell(TrainOnCorpus(sequential + steps + " --resume stopped --metrics stopped.jsonl"),
          *folder_);
  RunWell(TrainOnCorpus(sequential + steps + " --metrics undisturbed.jsonl"), *folder_);
  const std::vector<nlohmann::json> rows = ReadRows("stopped.jsonl", *folder_);
  ASSERT_EQ(rows.size(), static_cast<size_t>(stopped_at + 3));
  ExpectSameLosses(rows, ReadRows("undisturbed.jsonl", *folder_), 0);
}

TEST_F(ResumeTest, JsonTellsThatARunWasStopped) {
  RunningCommand command(TrainOnCorpus("--plan plan.json --data-order sequential --steps 1000000 "
                                       "--metrics json.jsonl --format json"),
                         *folder_);
  ASSERT_TRUE(WaitForRows(1, "json.jsonl", *folder_, command)) << command.Wait().err;
  command.Interrupt();
  const CommandResult result = command.Wait();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_EQ(nlohmann::json::parse(result.out)["interrupted"], true);
}

}  // namespace
}  // namespace tessera::testing
