// From a text to a trained model: `tessera data`, `plan` and `train`, as a user runs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <memory>
#include <set>

#include "cost_model/base/check.h"
#include "tests/integration/small_job.h"
#include "tests/integration/trace_check.h"

namespace tessera::testing {
namespace {

using ::testing::AllOf;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr int kNumSteps = 60;
constexpr int kNumRanks = 4;

// Nats of a byte of `text` when bytes are told by their frequency alone.
double ByteEntropy(const std::string& text) {
  std::array<double, 256> counts{};
  for (const char c : text) counts[static_cast<unsigned char>(c)] += 1;
  const auto size = static_cast<double>(text.size());
  double entropy = 0;
  for (const double count : counts) {
    if (count > 0) entropy -= count / size * std::log(count / size);
  }
  return entropy;
}

// One training run, at which all tests look.
class TrainCommandTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    MakeSmallJob(*folder_);
    PlanSmall(kTensorAndPipeline, "plan.json", *folder_);
    result_ = RunCommand(
        "train --plan plan.json --data corpus --hyperparameters train.json --steps " +
            std::to_string(kNumSteps) +
            " --metrics metrics.jsonl --trace trace.json --save checkpoints --save-interval 25"
            " --valid-data corpus --eval-interval 20 --eval-samples 16 --tensorboard events",
        *folder_);
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static std::unique_ptr<TemporaryFolder> folder_;
  static CommandResult result_;
};

std::unique_ptr<TemporaryFolder> TrainCommandTest::folder_;
CommandResult TrainCommandTest::result_;

TEST_F(TrainCommandTest, EndsWell) {
  EXPECT_EQ(result_.exit_code, 0) << result_.err;
  EXPECT_THAT(result_.ErrorLines(), IsEmpty());
}

TEST_F(TrainCommandTest, TokenFileHoldsTheBytesOfTheTextAndTheDocumentsEnd) {
  const std::string text = folder_->Read("text.txt");
  const std::string tokens = folder_->Read("corpus.bin");
  ASSERT_EQ(tokens.size(), 2 * (text.size() + 1));  // 257 ids need 16 bits
  for (size_t i = 0; i < text.size(); ++i) {
    ASSERT_EQ(tokens[2 * i], text[i]) << i;
    ASSERT_EQ(tokens[2 * i + 1], 0) << i;
  }
  EXPECT_EQ(tokens.substr(2 * text.size()), std::string("\x00\x01", 2));
}

TEST_F(TrainCommandTest, PlanHoldsWhatTheFlagsPinned) {
  const auto plan = nlohmann::json::parse(folder_->Read("plan.json"));
  EXPECT_EQ(plan["parallel"]["tensor_parallel_size"], 2);
  EXPECT_EQ(plan["parallel"]["pipeline_parallel_size"], 2);
  EXPECT_EQ(plan["parallel"]["data_parallel_size"], 1);
  EXPECT_EQ(plan["parallel"]["schedule"], "1f1b");
  EXPECT_EQ(plan["training"]["global_batch_size"], kSmallBatchSize);
  EXPECT_GT(plan["prediction"]["step_time_s"].get<double>(), 0);
}

TEST_F(TrainCommandTest, MetricsCountSamplesTokensAndSeconds) {
  const std::vector<nlohmann::json> rows = ReadRows("metrics.jsonl", *folder_);
  ASSERT_EQ(rows.size(), static_cast<size_t>(kNumSteps));
  for (int i = 0; i < kNumSteps; ++i) {
    const nlohmann::json& row = rows[static_cast<size_t>(i)];
    const int samples = (i + 1) * kSmallBatchSize;
    EXPECT_EQ(row["step"], i + 1);
    EXPECT_EQ(row["consumed_samples"], samples);
    EXPECT_EQ(row["consumed_tokens"], samples * kSmallSequenceLength);
    EXPECT_GT(row["grad_norm"].get<double>(), 0);
    const double step_s = row["step_time_s"];
    EXPECT_NEAR(row["tokens_per_s"].get<double>() * step_s, kSmallBatchSize * kSmallSequenceLength,
                1e-6);
    EXPECT_GT(row["mfu"].get<double>(), 0);
    EXPECT_GT(row["model_tflops_per_device"].get<double>(), 0);
    double sum_s = 0;
    for (const char* part : {"forward_s", "backward_s", "tp_comm_s", "cp_comm_s", "ep_comm_s",
                             "pp_wait_s", "dp_comm_s", "optimizer_s", "other_s"}) {
      ASSERT_TRUE(row.contains(part)) << part;
      sum_s += row[part].get<double>();
    }
    EXPECT_NEAR(sum_s, step_s, 1e-9);
  }
}

TEST_F(TrainCommandTest, LearningRateWarmsUpAndStays) {
  const std::vector<nlohmann::json> rows = ReadRows("metrics.jsonl", *folder_);
  for (size_t i = 0; i < rows.size(); ++i) {
    const double expected = 0.004 * std::min(1.0, static_cast<double>(i + 1) / 4);
    EXPECT_NEAR(rows[i]["lr"].get<double>(), expected, 1e-12) << i;
  }
}

TEST_F(TrainCommandTest, ValidationLossStandsAtItsStepsAndFalls) {
  const std::vector<nlohmann::json> rows = ReadRows("metrics.jsonl", *folder_);
  double last = std::log(kSmallVocabSize);
  for (const nlohmann::json& row : rows) {
    const bool is_due = row["step"].get<int>() % 20 == 0;
    EXPECT_EQ(row.contains("validation_loss"), is_due) << row["step"];
    if (!is_due) continue;
    EXPECT_LT(row["validation_loss"].get<double>(), last) << row["step"];
    last = row["validation_loss"];
  }
  EXPECT_THAT(result_.out, HasSubstr(base::Concat("Validation loss: ", last).substr(0, 20)));
  EXPECT_THAT(result_.err, ContainsRegex("step +20/60 .*validation loss"));
}

// The first bytes of every file of events that TensorFlow writes: a length of 24 and its checksum.
TEST_F(TrainCommandTest, EventsOfTensorBoardHoldTheScalarsOfEveryStep) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder_->Path("events"))) {
    files.push_back(entry.path().filename().string());
  }
  ASSERT_EQ(files.size(), 1U);
  EXPECT_THAT(files[0], ::testing::StartsWith("events.out.tfevents."));
  const std::string bytes = folder_->Read("events/" + files[0]);
  EXPECT_EQ(bytes.substr(0, 12), std::string("\x18\0\0\0\0\0\0\0\xa3\x7f\x4b\x22", 12));
  const auto count = [&](const std::string& tag) {
    int found = 0;
    for (size_t at = bytes.find(tag); at != std::string::npos; at = bytes.find(tag, at + 1)) {
      ++found;
    }
    return found;
  };
  EXPECT_EQ(count("train/loss"), kNumSteps);
  EXPECT_EQ(count("validation/loss"), kNumSteps / 20);
}

TEST_F(TrainCommandTest, LossStartsAtEvenOddsAndFallsBelowWhatByteFrequenciesTell) {
  const std::vector<nlohmann::json> rows = ReadRows("metrics.jsonl", *folder_);
  EXPECT_NEAR(rows.front()["loss"].get<double>(), std::log(kSmallVocabSize), 0.1);
  const double entropy = ByteEntropy(folder_->Read("text.txt"));
  EXPECT_LT(rows.back()["loss"].get<double>(), 0.9 * entropy);
}

TEST_F(TrainCommandTest, ClosingTableSetsPredictedBesideMeasured) {
  EXPECT_THAT(result_.out, AllOf(ContainsRegex("predicted +measured"), HasSubstr("forward"),
                                 HasSubstr("backward"), HasSubstr("stage 0, a rank"),
                                 HasSubstr("stage 1, a rank"), HasSubstr("activations (peak)")));
  // Rank 3 is the last of tp 2 x pp 2: stage 1, data rank 0, context rank 0, tensor rank 1.
  EXPECT_THAT(result_.out, ContainsRegex("\n +3 +1 +0 +0 +1 "));
  EXPECT_THAT(result_.out, ContainsRegex("Slowest rank: [0-3], which computes [1-9]"));
}

TEST_F(TrainCommandTest, ProgressTellsTheFirstAndTheLastStep) {
  EXPECT_THAT(result_.err, AllOf(ContainsRegex("step +1/60 \\| loss +5\\."),
                                 ContainsRegex("step +60/60 \\| loss"), HasSubstr("tok/s"),
                                 HasSubstr("grad norm"), HasSubstr("ETA")));
}

TEST_F(TrainCommandTest, TraceHoldsEveryPassOfThePlanOnEveryRank) {
  const auto trace = nlohmann::json::parse(folder_->Read("trace.json"));
  ExpectValidTrace(trace);
  for (int rank = 0; rank < kNumRanks; ++rank) {
    const std::vector<nlohmann::json> events = EventsOfProcess(
        trace, base::Concat("rank ", rank, " (pp ", rank / 2, ", dp 0, tp ", rank % 2, ")"));
    const auto count = [&](const char* category) {
      return std::count_if(events.begin(), events.end(), [&](const nlohmann::json& event) {
        return event.at("cat") == category;
      });
    };
    // A forward and a backward pass for each micro-batch, the exchanges between two stages.
    EXPECT_EQ(count("compute"), 2 * kSmallNumMicrobatches) << rank;
    EXPECT_EQ(count("transfer"), 2 * kSmallNumMicrobatches) << rank;
    EXPECT_EQ(count("data parallel"), 2) << rank;  // reduction and gathering
    EXPECT_EQ(count("wait"), 1) << rank;
    EXPECT_GT(EndOf(events), 0) << rank;
  }
}

TEST_F(TrainCommandTest, TraceOpensTogetherWithThePrediction) {
  RunWell(
      "estimate --model model.json --cluster local-cpu --devices 4 --seq-length 32 "
      "--global-batch-size 8 " +
          std::string(kTensorAndPipeline) + " --trace both.json --trace-measured trace.json",
      *folder_);
  const auto trace = nlohmann::json::parse(folder_->Read("both.json"));
  ExpectValidTrace(trace);
  std::set<std::string> measured, predicted;
  for (const auto& event : EventsOfProcess(trace, "rank 3 (pp 1, dp 0, tp 1)")) {
    measured.insert(event.at("name"));
  }
  for (const auto& event : EventsOfProcess(trace, "predicted stage 1")) {
    predicted.insert(event.at("name"));
  }
  EXPECT_TRUE(std::includes(measured.begin(), measured.end(), predicted.begin(), predicted.end()));
}

TEST_F(TrainCommandTest, CheckpointsLieAtTheIntervalAndAtTheEnd) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder_->Path("checkpoints"))) {
    names.push_back(entry.path().filename().string());
  }
  EXPECT_THAT(names,
              ::testing::UnorderedElementsAre("step_00000025", "step_00000050", "step_00000060"));
}

TEST_F(TrainCommandTest, JsonReportHoldsPredictionMeasurementAndRanks) {
  const nlohmann::json report =
      RunForJson("train --plan plan.json --data corpus --steps 3 --quiet", *folder_);
  EXPECT_EQ(report["first_step"], 0);
  EXPECT_EQ(report["last_step"], 3);
  EXPECT_EQ(report["interrupted"], false);
  ASSERT_EQ(report["ranks"].size(), static_cast<size_t>(kNumRanks));
  for (const char* side : {"predicted", "measured"}) {
    const nlohmann::json& step = report[side];
    for (const char* key : {"step_time_s", "tokens_per_s", "tokens_per_s_per_device", "mfu",
                            "model_tflops_per_device", "memory", "time"}) {
      EXPECT_TRUE(step.contains(key)) << side << ' ' << key;
    }
    ASSERT_EQ(step["memory"]["stages"].size(), 2U);
  }
  // What a rank allocates for its state is known before, to the byte.
  for (const size_t stage : {0, 1}) {
    for (const char* key : {"weights_bytes", "gradients_bytes", "optimizer_bytes"}) {
      EXPECT_EQ(report["predicted"]["memory"]["stages"][stage][key],
                report["measured"]["memory"]["stages"][stage][key]);
    }
  }
}

TEST_F(TrainCommandTest, QuietLeavesStderrEmpty) {
  const CommandResult result =
      RunCommand("train --plan plan.json --data corpus --steps 1 --quiet", *folder_);
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
}

TEST_F(TrainCommandTest, EveryLayoutAndScheduleTrainsTheSame) {
  PlanSmall("--tp 1 --pp 4 --schedule gpipe --micro-batch-size 2", "gpipe.json", *folder_);
  PlanSmall("--tp 1 --pp 2 --dp 2 --schedule interleaved --vpp 2 --micro-batch-size 1",
            "interleaved.json", *folder_);
  const std::vector<nlohmann::json> expected = ReadRows("metrics.jsonl", *folder_);
  for (const std::string plan : {"gpipe", "interleaved"}) {
    // The order of shuffled data is laid out for the number of steps: the run is the same one.
    RunWell("train --data corpus --hyperparameters train.json --quiet --steps " +
                std::to_string(kNumSteps) + " --plan " + plan + ".json --metrics " + plan,
            *folder_);
    std::vector<nlohmann::json> rows = ReadRows(plan, *folder_);
    rows.resize(10);  // later, rounding errors have grown
    ExpectSameLosses(rows, expected, 1e-5);
  }
}

}  // namespace
}  // namespace tessera::testing
