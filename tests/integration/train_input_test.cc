// Plans, data, weights and flags that `tessera train`, `data` and `checkpoint` cannot use.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <memory>

#include "tests/integration/refusal.h"
#include "tests/integration/small_job.h"

namespace tessera::testing {
namespace {

class TrainInputTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    MakeSmallJob(*folder_);
    PlanSmall(kTensorAndPipeline, "plan.json", *folder_);
    RunWell(
        "train --plan plan.json --data corpus --steps 1 --save saved --export-hf exported "
        "--quiet",
        *folder_);
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static void Refused(const std::string& line, const std::vector<std::string>& words) {
    ExpectRefusal(line, base::kExitWrongInput, words, *folder_);
  }
  static void TrainRefused(const std::string& flags, const std::vector<std::string>& words) {
    Refused("train --steps 2 --quiet " + flags, words);
  }
  // Writes plan `name` with one value of the layout changed, and expects it to be infeasible.
  static void EditedPlanInfeasible(const std::string& key, const nlohmann::json& value,
                                   const std::vector<std::string>& words) {
    auto plan = nlohmann::json::parse(folder_->Read("plan.json"));
    plan["parallel"][key] = value;
    folder_->Write("edited.json", plan.dump());
    ExpectRefusal("train --plan edited.json --data corpus", base::kExitInfeasible, words, *folder_);
  }
  // Writes `to` as the first `num_bytes` of `from`.
  static void Truncate(const std::string& from, const std::string& to, size_t num_bytes) {
    folder_->Write(to, folder_->Read(from).substr(0, num_bytes));
  }

  static std::unique_ptr<TemporaryFolder> folder_;
};

std::unique_ptr<TemporaryFolder> TrainInputTest::folder_;

TEST_F(TrainInputTest, ADeviceThatThisBuildDoesNotKnowIsNamed) {
  if (std::filesystem::exists(std::string(TESSERA_BIN_DIR) + "/tessera-engine-cuda")) {
    GTEST_SKIP() << "built for CUDA";
  }
  TrainRefused("--plan plan.json --data corpus --device cuda",
               {"--device: found cuda, expected cpu", "build for CPUs"});
  TrainRefused("--plan plan.json --data corpus --comm nccl", {"--comm", "nccl", "thread"});
}

TEST_F(TrainInputTest, ATruncatedSafetensorsFileIsNamedWithTheTensor) {
  Truncate("exported/config.json", "cut/config.json", 1 << 20);
  Truncate("exported/model.safetensors", "cut/model.safetensors", 100'000);
  TrainRefused("--plan plan.json --data corpus --init hf:cut",
               {"cut/model.safetensors", "tensor", "truncated"});
  Truncate("exported/model.safetensors", "cut/model.safetensors", 5);
  TrainRefused("--plan plan.json --data corpus --init hf:cut", {"cut/model.safetensors"});
  Refused("checkpoint verify hf:cut", {"cut/model.safetensors"});
}

TEST_F(TrainInputTest, WeightsOfAnotherShapeAreNamed) {
  std::filesystem::copy(folder_->Path("exported"), folder_->Path("other"));
  folder_->WriteEdited("model.json", "deep.json", "\"num_layers\": 4", "\"num_layers\": 5");
  RunWell(
      "plan --model deep.json --cluster local-cpu --devices 1 --seq-length 32 "
      "--global-batch-size 8 --quiet --out deep-plan.json",
      *folder_);
  TrainRefused("--plan deep-plan.json --data corpus --init hf:other", {"other"});
}

TEST_F(TrainInputTest, ATruncatedIndexIsNamedWithTheByte) {
  folder_->Write("cut.bin", folder_->Read("corpus.bin"));
  for (const size_t num_bytes : {0, 10, 40}) {
    Truncate("corpus.idx", "cut.idx", num_bytes);
    TrainRefused("--plan plan.json --data cut", {"cut.idx"});
    Refused("data inspect cut", {"cut.idx"});
  }
}

TEST_F(TrainInputTest, ATokenFileShorterThanItsIndexSaysIsNamed) {
  folder_->Write("short.idx", folder_->Read("corpus.idx"));
  Truncate("corpus.bin", "short.bin", 1000);
  TrainRefused("--plan plan.json --data short", {"short."});
}

TEST_F(TrainInputTest, EmptyDataIsNamed) {
  folder_->Write("empty.txt", "");
  Refused("data build empty.txt --out empty", {"empty.txt", "text"});
  EXPECT_FALSE(std::filesystem::exists(folder_->Path("empty.bin")));
  folder_->Write("empty.u16", "");
  TrainRefused("--plan plan.json --data empty.u16 --data-format raw-u16", {"empty.u16", "empty"});
}

TEST_F(TrainInputTest, ARefusedRunLeavesTheMetricsOfAnEarlierOne) {
  folder_->Write("earlier.jsonl", "{\"step\": 1}\n");
  TrainRefused("--plan plan.json --data missing --metrics earlier.jsonl", {"missing"});
  EXPECT_EQ(folder_->Read("earlier.jsonl"), "{\"step\": 1}\n");
  RunWell("train --plan plan.json --data corpus --steps 1 --quiet --metrics earlier.jsonl",
          *folder_);
  EXPECT_NE(folder_->Read("earlier.jsonl").find("\"loss\""), std::string::npos);
  EXPECT_EQ(folder_->Read("earlier.jsonl").find("{\"step\": 1}"), std::string::npos);
}

TEST_F(TrainInputTest, DataTooShortForOneSampleIsNamed) {
  folder_->Write("short.u8", std::string(kSmallSequenceLength, 'a'));  // its label is missing
  TrainRefused("--plan plan.json --data short.u8 --data-format raw-u8", {"short.u8", "32"});
}

TEST_F(TrainInputTest, MissingFilesAreNamed) {
  TrainRefused("--plan no-plan.json --data corpus", {"no-plan.json"});
  TrainRefused("--plan plan.json --data no-data", {"no-data"});
  TrainRefused("--plan plan.json --data corpus --init hf:no-model", {"no-model"});
  TrainRefused("--plan plan.json --data corpus --resume no-run", {"no-run"});
  TrainRefused("--plan plan.json --data corpus --hyperparameters no.json", {"no.json"});
  Refused("data build no.txt --out x", {"no.txt"});
  Refused("checkpoint inspect no-run", {"no-run"});
  Refused("checkpoint verify no-run", {"no-run"});
}

TEST_F(TrainInputTest, APlanOfAnotherFormatVersionIsRefused) {
  folder_->WriteEdited("plan.json", "version.json", "\"format_version\": 1",
                       "\"format_version\": 2");
  TrainRefused("--plan version.json --data corpus", {"version.json: /format_version", "2", "1"});
}

TEST_F(TrainInputTest, ATypoInThePlanNamesFileAndKey) {
  folder_->WriteEdited("plan.json", "typo.json", "zero_stage", "zero_stag");
  TrainRefused("--plan typo.json --data corpus", {"typo.json: /parallel/zero_stag", "zero_stage"});
}

TEST_F(TrainInputTest, APlanThatIsNoJsonIsRefused) {
  TrainRefused("--plan text.txt --data corpus", {"text.txt", "line 1"});
}

TEST_F(TrainInputTest, ATokenAboveTheVocabularyIsNamed) {
  std::string tokens;
  for (int i = 0; i < 4000; ++i) tokens += std::string("\x2c\x01", 2);  // 300
  folder_->Write("high.u16", tokens);
  TrainRefused("--plan plan.json --data high.u16 --data-format raw-u16",
               {"high.u16", "300", "257"});
}

TEST_F(TrainInputTest, ADamagedCheckpointIsNamedWithTheTensor) {
  const std::string file = "damaged/step_00000001/rank_00002.safetensors";
  std::filesystem::copy(folder_->Path("saved"), folder_->Path("damaged"),
                        std::filesystem::copy_options::recursive);
  std::string content = folder_->Read(file);
  content.back() ^= 1;
  folder_->Write(file, content);
  TrainRefused("--plan plan.json --data corpus --resume damaged", {file, "tensor", "checksum"});
  Refused("checkpoint verify damaged", {file, "tensor", "checksum"});
  Refused("checkpoint convert --from damaged --to hf:from-damaged", {file, "tensor", "checksum"});
}

TEST_F(TrainInputTest, AnUnfinishedCheckpointIsNoCheckpoint) {
  std::filesystem::copy(folder_->Path("saved"), folder_->Path("unfinished"),
                        std::filesystem::copy_options::recursive);
  std::filesystem::remove(folder_->Path("unfinished/step_00000001/COMPLETE"));
  TrainRefused("--plan plan.json --data corpus --resume unfinished", {"unfinished"});
}

TEST_F(TrainInputTest, AnEditedPlanThatBreaksARuleIsInfeasible) {
  EditedPlanInfeasible("tensor_parallel_size", 3, {"4 attention heads", "tensor-parallel size 3"});
  EditedPlanInfeasible("pipeline_parallel_size", 8, {"4 layers", "8 pipeline stages"});
  EditedPlanInfeasible("micro_batch_size", 3, {"global batch size 8", "micro-batch size 3"});
  EditedPlanInfeasible("data_parallel_size", 2, {"8 ranks", "4 devices"});
}

TEST_F(TrainInputTest, APlanWithoutAnEngineForItIsInfeasible) {
  EditedPlanInfeasible("gradient_reduce_type", "bf16", {"gradient_reduce_type"});
}

TEST_F(TrainInputTest, FlagsAreChecked) {
  const std::string train = "train --plan plan.json --data corpus ";
  Refused(train + "--no-such-flag", {"--no-such-flag"});
  Refused(train + "--steps 0", {"--steps", "0"});
  Refused(train + "--steps many", {"--steps", "many"});
  Refused(train + "--timeout 0", {"--timeout", "0"});
  Refused(train + "--save-interval -1", {"--save-interval", "-1"});
  Refused(train + "--save-interval 5", {"--save-interval", "--save"});
  Refused(train + "--init model", {"--init", "hf:DIR"});
  Refused(train + "--init hf:exported --resume saved", {"--init", "--resume"});
  Refused(train + "--data-order random", {"random", "sequential"});
  Refused(train + "--data-format raw", {"raw", "raw-u16"});
  Refused("train --plan plan.json", {"--data"});
  Refused("train --data corpus --plann plan.json", {"--plann"});
  Refused("data", {"subcommand"});
  Refused("data biuld text.txt", {"biuld"});
  Refused("checkpoint convert --from saved --to hf:x --max-shard-size 0", {"--max-shard-size"});
}

TEST_F(TrainInputTest, AModelWithoutAHuggingFaceFormIsToldBeforeTheFirstStep) {
  folder_->WriteEdited("model.json", "mixed.json", "rmsnorm", "layernorm");
  RunWell(
      "plan --model mixed.json --cluster local-cpu --devices 1 --seq-length 32 "
      "--global-batch-size 8 --quiet --out mixed-plan.json",
      *folder_);
  const std::string line =
      "train --plan mixed-plan.json --data corpus --steps 1 --export-hf mixed-hf";
  Refused(line, {"small"});
  EXPECT_THAT(RunCommand(line, *folder_).err, ::testing::Not(::testing::HasSubstr("loss")));
}

TEST_F(TrainInputTest, WhatCannotBeWrittenFailsBeforeTheFirstStep) {
  // A file cannot be a folder.
  for (const std::string flag : {"--metrics text.txt/m.jsonl", "--save text.txt/saved",
                                 "--export-hf text.txt/model", "--trace text.txt/trace.json"}) {
    const std::string line = "train --plan plan.json --data corpus --steps 1 " + flag;
    ExpectRefusal(line, base::kExitFailure, {"text.txt/"}, *folder_);
    EXPECT_THAT(RunCommand(line, *folder_).err, ::testing::Not(::testing::HasSubstr("loss")));
  }
}

}  // namespace
}  // namespace tessera::testing
