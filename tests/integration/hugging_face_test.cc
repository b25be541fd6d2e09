// Weights on their way to Hugging Face's form and back: train, checkpoint convert, --init hf:.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <memory>

#include "tests/integration/small_job.h"

namespace tessera::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

// 4 layers of width 64 and MLP width 128, by hand: two norms, q k v o, gate up down; embedding,
// head, last norm.
constexpr int64_t kNumParameters = 4 * (2 * 64 + 4 * 64 * 64 + 3 * 64 * 128) + 2 * 257 * 64 + 64;
constexpr int kNumTensors = 4 * 9 + 3;

// Every step sees the same global batch: what step n + 1 loses depends on the weights alone.
std::string TrainOnBatch(const std::string& rest) {
  return "train --data batch.bin --data-format raw-u8 --data-order sequential "
         "--hyperparameters train.json --quiet " +
         rest;
}

class HuggingFaceTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    MakeSmallJob(*folder_);
    // One batch of samples that share their border tokens.
    folder_->Write("batch.bin",
                   SmallText(100).substr(0, kSmallBatchSize * kSmallSequenceLength + 1));
    PlanSmall(kTensorAndPipeline, "plan.json", *folder_);
    PlanSmall("--tp 4 --micro-batch-size 2", "tp4.json", *folder_);
    RunWell(TrainOnBatch("--plan plan.json --steps 3 --save checkpoint --export-hf exported"),
            *folder_);
    RunWell(TrainOnBatch("--plan plan.json --steps 4 --resume checkpoint --metrics next.jsonl"),
            *folder_);
    next_loss_ = ReadRows("next.jsonl", *folder_).front()["loss"];
  }
  static void TearDownTestSuite() { folder_.reset(); }

  // The first loss of a run that starts from `init`.
  static double FirstLoss(const std::string& init, const std::string& plan) {
    RunWell(TrainOnBatch("--plan " + plan + " --steps 1 --init " + init + " --metrics first.jsonl"),
            *folder_);
    return ReadRows("first.jsonl", *folder_).front()["loss"];
  }

  static std::unique_ptr<TemporaryFolder> folder_;
  static double next_loss_;
};

std::unique_ptr<TemporaryFolder> HuggingFaceTest::folder_;
double HuggingFaceTest::next_loss_ = 0;

TEST_F(HuggingFaceTest, TheExportedModelLosesAsTheTrainedOne) {
  EXPECT_EQ(FirstLoss("hf:exported", "plan.json"), next_loss_);
  EXPECT_NEAR(FirstLoss("hf:exported", "tp4.json"), next_loss_, 1e-6 * next_loss_);
}

TEST_F(HuggingFaceTest, ACheckpointGivesItsWeightsAlone) {
  EXPECT_EQ(FirstLoss("checkpoint:checkpoint", "plan.json"), next_loss_);
}

TEST_F(HuggingFaceTest, ConvertWritesWhatTrainExports) {
  EXPECT_EQ(RunWell("checkpoint convert --from checkpoint --to hf:converted", *folder_),
            "wrote converted\n");
  EXPECT_TRUE(folder_->Read("converted/model.safetensors") ==
              folder_->Read("exported/model.safetensors"));
  EXPECT_EQ(folder_->Read("converted/config.json"), folder_->Read("exported/config.json"));
}

TEST_F(HuggingFaceTest, ConvertBackGivesTheSameWeights) {
  RunWell("checkpoint convert --from hf:exported --to native --quiet", *folder_);
  EXPECT_EQ(FirstLoss("checkpoint:native", "plan.json"), next_loss_);
}

TEST_F(HuggingFaceTest, ConfigDescribesTheModelInTransformersWords) {
  const auto config = nlohmann::json::parse(folder_->Read("exported/config.json"));
  EXPECT_EQ(config["model_type"], "llama");
  EXPECT_EQ(config["architectures"][0], "LlamaForCausalLM");
  EXPECT_EQ(config["num_hidden_layers"], 4);
  EXPECT_EQ(config["hidden_size"], 64);
  EXPECT_EQ(config["intermediate_size"], 128);
  EXPECT_EQ(config["vocab_size"], kSmallVocabSize);
  EXPECT_EQ(config["tie_word_embeddings"], false);
}

TEST_F(HuggingFaceTest, AnExportedFolderIsAModelToPlanFor) {
  RunWell(
      "plan --model exported --cluster local-cpu --devices 2 --seq-length 32 "
      "--global-batch-size 8 --quiet --out from-export.json",
      *folder_);
  EXPECT_NEAR(FirstLoss("hf:exported", "from-export.json"), next_loss_, 1e-6 * next_loss_);
}

TEST_F(HuggingFaceTest, InspectCountsParametersAndTensors) {
  for (const char* path : {"checkpoint", "hf:exported"}) {
    const nlohmann::json summary = RunForJson(std::string("checkpoint inspect ") + path, *folder_);
    EXPECT_EQ(summary["num_parameters"], kNumParameters) << path;
    EXPECT_EQ(summary["tensors"].size(), static_cast<size_t>(kNumTensors)) << path;
  }
  EXPECT_THAT(RunWell("checkpoint inspect hf:exported --tensors", *folder_),
              HasSubstr("model.layers.3.mlp.down_proj.weight  F32 [64, 128]"));
}

TEST_F(HuggingFaceTest, VerifyFindsBothFormsGood) {
  EXPECT_THAT(RunWell("checkpoint verify checkpoint", *folder_),
              AllOf(StartsWith("checkpoint/step_00000003: good"), HasSubstr("checksums match")));
  EXPECT_THAT(RunWell("checkpoint verify hf:exported", *folder_), StartsWith("exported: good"));
}

TEST_F(HuggingFaceTest, ConvertNeedsExactlyOneNativeSide) {
  for (const std::string sides : {"--from checkpoint --to other", "--from hf:x --to llmc:y.bin"}) {
    const CommandResult result = RunCommand("checkpoint convert " + sides, *folder_);
    EXPECT_EQ(result.exit_code, 2);
    ASSERT_EQ(result.ErrorLines().size(), 1U);
    EXPECT_THAT(result.ErrorLines()[0], AllOf(HasSubstr("hf:DIR"), HasSubstr("llmc:FILE")));
  }
}

TEST_F(HuggingFaceTest, AModelGoesThroughLlmCsFormAndBackUnchanged) {
  // 96 tokens, in 128 rows there.
  const std::string golden = std::string(TESSERA_SOURCE_DIR) + "/tests/golden/gpt2-tiny";
  const auto convert = [&](const std::string& rest) {
    RunWell("checkpoint convert --quiet " + rest, *folder_);
  };
  convert("--from hf:" + golden + " --to llmc-start");
  convert("--from llmc-start --to llmc:model.bin");
  convert("--from llmc:model.bin --to llmc-back");
  convert("--from llmc-start --to hf:llmc-start-hf");
  convert("--from llmc-back --to hf:llmc-back-hf");
  EXPECT_TRUE(folder_->Read("llmc-start-hf/model.safetensors") ==
              folder_->Read("llmc-back-hf/model.safetensors"));
  convert("--from llmc-start --to llmc:half.bin --dtype bf16");
  const auto size_bytes = [&](const char* name) {
    return std::filesystem::file_size(folder_->Path(name));
  };
  EXPECT_EQ(size_bytes("model.bin") - 1024, 2 * (size_bytes("half.bin") - 1024));
}

TEST_F(HuggingFaceTest, AModelFromElsewhereTrainsAsItsReferenceProgram) {
  // fp32 against float64, see tests/golden/README.md.
  constexpr double kTolerance = 2e-5;
  for (const std::string name : {"gpt2-tiny", "gpt2-odd-vocab", "llama-gqa", "llama-tied-mha",
                                 "llama-rope-scaling", "qwen2-tiny"}) {
    SCOPED_TRACE(name);
    const std::string golden = std::string(TESSERA_SOURCE_DIR) + "/tests/golden/" + name;
    RunWell("plan --model " + golden + " --cluster local-cpu --devices 4 --tp 2 --pp 2 --quiet" +
                " --hyperparameters " + golden + "/train.json --out golden.json",
            *folder_);
    RunWell("train --plan golden.json --data " + golden + "/tokens.bin --data-format raw-u16" +
                " --data-order sequential --init hf:" + golden + " --metrics golden.jsonl --quiet",
            *folder_);
    std::ifstream file(golden + "/expected.json");
    const nlohmann::json expected = nlohmann::json::parse(file)["steps"];
    const std::vector<nlohmann::json> rows = ReadRows("golden.jsonl", *folder_);
    ASSERT_EQ(rows.size(), expected.size());
    for (size_t i = 0; i < rows.size(); ++i) {
      for (const char* key : {"loss", "grad_norm", "lr"}) {
        const double value = expected[i][key];
        EXPECT_NEAR(rows[i][key].get<double>(), value, kTolerance * value) << key << ' ' << i;
      }
    }
  }
}

}  // namespace
}  // namespace tessera::testing
