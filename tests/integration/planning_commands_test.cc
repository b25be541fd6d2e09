// What `tessera plan` and `estimate` print, as a program reads it and as a user sees it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <sstream>

#include "cost_model/base/check.h"
#include "tests/integration/small_job.h"
#include "tests/integration/trace_check.h"

namespace tessera::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;

// 175 billion parameters over 32 devices, as Megatron-LM's own arguments say it.
constexpr char kMegatronArguments[] = R"({"num_layers": 96, "hidden_size": 12288,
  "num_attention_heads": 96, "seq_len": 2048, "bf16": true, "tensor_model_parallel_size": 8,
  "pipeline_model_parallel_size": 4})";

// The keys that other programs rely on, and the sums that must hold.
void ExpectCompleteRow(const nlohmann::json& row, size_t num_stages) {
  for (const char* key : {"feasible", "violations", "layout", "step_time_s", "tokens_per_s",
                          "tokens_per_s_per_device", "model_tflops_per_device",
                          "hardware_tflops_per_device", "mfu", "hfu", "memory", "time"}) {
    ASSERT_TRUE(row.contains(key)) << key;
  }
  const nlohmann::json& time = row["time"];
  double sum_s = 0;
  for (const auto& [name, seconds] : time.items()) {
    EXPECT_TRUE(name.ends_with("_s")) << name;
    EXPECT_GE(seconds.get<double>(), 0) << name;
    sum_s += seconds.get<double>();
  }
  for (const char* key : {"compute_s", "tp_comm_s", "pp_comm_s", "dp_comm_s", "cp_comm_s",
                          "ep_comm_s", "bubble_s", "optimizer_s"}) {
    EXPECT_TRUE(time.contains(key)) << key;
  }
  const double step_s = row["step_time_s"];
  EXPECT_NEAR(sum_s, step_s, 1e-9 * step_s);

  const nlohmann::json& memory = row["memory"];
  ASSERT_EQ(memory["stages"].size(), num_stages);
  int64_t fullest_bytes = 0;
  for (const nlohmann::json& stage : memory["stages"]) {
    int64_t stage_bytes = 0;
    for (const char* key : {"weights_bytes", "gradients_bytes", "optimizer_bytes",
                            "activations_bytes", "buffers_bytes"}) {
      ASSERT_TRUE(stage.contains(key)) << key;
      stage_bytes += stage[key].get<int64_t>();
    }
    fullest_bytes = std::max(fullest_bytes, stage_bytes);
  }
  EXPECT_EQ(memory["peak_bytes"], fullest_bytes);
}

class EstimateCommandTest : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
};

using PlanCommandTest = EstimateCommandTest;

TEST_F(EstimateCommandTest, JsonHoldsTheKeysAndItsPartsAddUp) {
  const nlohmann::json row = RunForJson(
      "estimate --model gpt3-13b --cluster dgx-a100-80gb --devices 32 --tp 4 --pp 4 "
      "--micro-batch-size 1 --global-batch-size 64 --seq-length 2048 --sequence-parallel true",
      folder_);
  ExpectCompleteRow(row, 4);
  EXPECT_EQ(row["feasible"], true);
  EXPECT_EQ(row["violations"].size(), 0U);
  EXPECT_EQ(row["layout"]["data_parallel_size"], 2);
  const double tokens = 64.0 * 2048;
  const double step_s = row["step_time_s"];
  EXPECT_NEAR(row["tokens_per_s"].get<double>(), tokens / step_s, 1e-6 * tokens / step_s);
  EXPECT_NEAR(row["tokens_per_s_per_device"].get<double>(), tokens / step_s / 32, 1e-3);
  // Korthikanti et al. 2022, arXiv:2205.05198, appendix A, with all layers and the head counted
  // three times (forward, and twice in backward): h 5120, 40 layers, V 50257.
  const double h = 5120;
  const double flops = 72 * tokens * 40 * h * h * (1 + 2048 / (6 * h) + 50257 / (12.0 * 40 * h));
  const double tflops = flops / step_s / 32 / 1e12;
  EXPECT_NEAR(row["model_tflops_per_device"].get<double>(), tflops, 0.01 * tflops);
  EXPECT_NEAR(row["mfu"].get<double>(), tflops / 312, 0.01);  // A100: 312 TFLOP/s dense in bf16
}

TEST_F(EstimateCommandTest, FullRecomputationRaisesHardwareFlopsByAThirdAtMost) {
  const std::string job =
      "estimate --model gpt3-13b --cluster dgx-a100-80gb --tp 8 --global-batch-size 8 ";
  const nlohmann::json none = RunForJson(job + "--recompute none", folder_);
  const nlohmann::json full = RunForJson(job + "--recompute full", folder_);
  EXPECT_EQ(none["hfu"], none["mfu"]);
  EXPECT_GT(full["hfu"], full["mfu"]);
  EXPECT_LE(full["hfu"].get<double>(), 4.0 / 3 * full["mfu"].get<double>());
  EXPECT_GT(full["step_time_s"], none["step_time_s"]);
  EXPECT_LT(full["memory"]["peak_bytes"], none["memory"]["peak_bytes"]);
}

TEST_F(EstimateCommandTest, TheTraceEndsWithTheStep) {
  for (const char* layout : {"--pp 4 --dp 2", "--pp 4 --vpp 2 --schedule interleaved --tp 2",
                             "--pp 4 --dp 2 --schedule zb-h1", "--tp 8"}) {
    const nlohmann::json row =
        RunForJson(base::Concat("estimate --model gpt3-1.3b --cluster dgx-a100-80gb --devices 8 "
                                "--global-batch-size 64 --trace trace.json ",
                                layout),
                   folder_);
    const auto trace = nlohmann::json::parse(folder_.Read("trace.json"));
    ExpectValidTrace(trace);
    double end_s = 0;
    for (int stage = 0; stage < row["layout"]["pipeline_parallel_size"]; ++stage) {
      end_s =
          std::max(end_s, EndOf(EventsOfProcess(trace, base::Concat("predicted stage ", stage))));
    }
    const double step_time_s = row["step_time_s"];
    EXPECT_NEAR(end_s, step_time_s, 1e-9 * step_time_s) << layout;
  }
}

TEST_F(EstimateCommandTest, TablePrintsTheFormulaBehindTheUtilisation) {
  const std::string out = RunWell(
      "estimate --model gpt3-1.3b --cluster dgx-a100-80gb --tp 2 --pp 2 --global-batch-size 64",
      folder_);
  EXPECT_THAT(out, HasSubstr("MFU"));
  EXPECT_THAT(out, HasSubstr("dense peak"));
  EXPECT_THAT(out, HasSubstr("no recomputation"));
  EXPECT_THAT(out, HasSubstr("pipeline bubble"));
}

TEST_F(EstimateCommandTest, MegatronsLongNamesAreTheSameFlags) {
  const std::string job = "estimate --model gpt3-13b --cluster dgx-a100-80gb ";
  EXPECT_EQ(RunForJson(job + "--devices 32 --tp 4 --pp 2 --vpp 2 --dp 4 --micro-batch-size 2 "
                             "--global-batch-size 64 --seq-length 1024 --precision bf16 "
                             "--sequence-parallel true --zero-stage 1 --recompute selective "
                             "--schedule interleaved",
                       folder_),
            RunForJson(job + "--gpus 32 --tensor-model-parallel-size 4 "
                             "--pipeline-model-parallel-size 2 "
                             "--virtual-pipeline-model-parallel-size 2 --data-parallel-size 4 "
                             "--micro-batch-size 2 --global-batch-size 64 --seq-length 1024 --bf16 "
                             "--sequence-parallel --use-distributed-optimizer "
                             "--recompute-granularity selective --schedule interleaved",
                       folder_));
  EXPECT_EQ(RunForJson(job + "--tp 4 --cp 1 --ep 1 --steps 5", folder_),
            RunForJson(job + "--tp 4 --context-parallel-size 1 --expert-model-parallel-size 1 "
                             "--train-iters 5",
                       folder_));
}

TEST_F(EstimateCommandTest, MegatronArgumentsWithoutMemoryEnoughAreAnAnswer) {
  folder_.Write("arguments.json", kMegatronArguments);
  const CommandResult result = RunCommand(
      "estimate --model arguments.json --cluster dgx-a100-80gb --devices 32 --format json",
      folder_);
  // 18 bytes a parameter on 32 devices: 98 GB of state each.
  EXPECT_EQ(result.exit_code, 3) << result.err;
  ASSERT_EQ(result.ErrorLines().size(), 1U) << result.err;
  EXPECT_THAT(result.ErrorLines()[0], HasSubstr("a device has"));
  const auto row = nlohmann::json::parse(result.out);
  ExpectCompleteRow(row, 4);
  EXPECT_EQ(row["feasible"], false);
  EXPECT_EQ(row["violations"][0]["constraint"], "device memory");
  EXPECT_GT(row["violations"][0]["needed"], row["violations"][0]["available"]);
  EXPECT_EQ(row["layout"]["tensor_parallel_size"], 8);
  EXPECT_EQ(row["layout"]["pipeline_parallel_size"], 4);
  EXPECT_EQ(row["precision"], "bf16");
}

TEST_F(EstimateCommandTest, MegatronArgumentsFitWhereDataRanksShareTheOptimizer) {
  folder_.Write("arguments.json", kMegatronArguments);
  const nlohmann::json row =
      RunForJson("estimate --model arguments.json --cluster dgx-a100-80gb --devices 512", folder_);
  ExpectCompleteRow(row, 4);
  EXPECT_EQ(row["layout"]["data_parallel_size"], 16);
}

TEST_F(PlanCommandTest, MegatronArgumentsPinTheirLayout) {
  folder_.Write("arguments.json", kMegatronArguments);
  const nlohmann::json answer = RunForJson(
      "plan --model arguments.json --cluster dgx-a100-80gb --devices 512 --top 5", folder_);
  ASSERT_FALSE(answer["rows"].empty());
  for (const nlohmann::json& row : answer["rows"]) {
    EXPECT_EQ(row["layout"]["tensor_parallel_size"], 8);
    EXPECT_EQ(row["layout"]["pipeline_parallel_size"], 4);
  }
}

TEST_F(PlanCommandTest, RowsAreCompleteFeasibleAndFastestFirst) {
  const nlohmann::json answer = RunForJson(
      "plan --model gpt3-13b --cluster dgx-a100-80gb --devices 16 --global-batch-size 256 --top 20",
      folder_);
  ASSERT_EQ(answer["rows"].size(), 20U);
  double previous_s = 0;
  for (const nlohmann::json& row : answer["rows"]) {
    ExpectCompleteRow(row, row["layout"]["pipeline_parallel_size"].get<size_t>());
    EXPECT_EQ(row["feasible"], true);
    EXPECT_GE(row["step_time_s"].get<double>(), previous_s);
    previous_s = row["step_time_s"];
    const nlohmann::json& layout = row["layout"];
    EXPECT_EQ(
        layout["tensor_parallel_size"].get<int>() * layout["pipeline_parallel_size"].get<int>() *
            layout["data_parallel_size"].get<int>() * layout["context_parallel_size"].get<int>(),
        16);
  }
}

TEST_F(PlanCommandTest, AnEstimateOfTheChosenLayoutAgrees) {
  const std::string job =
      " --model gpt3-1.3b --cluster dgx-a100-80gb --devices 8 "
      "--global-batch-size 64 --format json ";
  const auto answer = nlohmann::json::parse(RunWell("plan" + job + "--top 1", folder_));
  const nlohmann::json& layout = answer["rows"][0]["layout"];
  std::ostringstream flags;
  flags << "--tp " << layout["tensor_parallel_size"] << " --pp " << layout["pipeline_parallel_size"]
        << " --vpp " << layout["virtual_pipeline_size"] << " --micro-batch-size "
        << layout["micro_batch_size"] << " --zero-stage " << layout["zero_stage"]
        << " --sequence-parallel " << layout["sequence_parallel"] << " --recompute "
        << layout["recompute"].get<std::string>() << " --schedule "
        << layout["schedule"].get<std::string>();
  for (const char* overlap : {"param-gather", "tp-comm", "pp-comm"}) {
    std::string key = std::string("overlap_") + overlap;
    std::replace(key.begin(), key.end(), '-', '_');
    if (layout[key]) flags << " --overlap-" << overlap;
  }
  const auto row = nlohmann::json::parse(RunWell("estimate" + job + flags.str(), folder_));
  EXPECT_EQ(row["layout"], layout);
  EXPECT_EQ(row["step_time_s"], answer["rows"][0]["step_time_s"]);
  for (const auto& [key, value] : answer["rows"][0]["memory"]["stages"][0].items()) {
    EXPECT_EQ(row["memory"]["stages"][0][key], value) << key;
  }
  EXPECT_EQ(row["memory"]["peak_bytes"], answer["rows"][0]["memory"]["peak_bytes"]);
}

TEST_F(PlanCommandTest, BestPracticeRowsStandBesideTheChoice) {
  struct Case {
    int num_devices;
    int pipeline_parallel_size;
  };
  // TP 8 fills a node; PP 1, 2, 4 over 8, 16, 32 devices; more devices are data-parallel.
  for (const Case& test : {Case{8, 1}, Case{16, 2}, Case{32, 4}, Case{64, 4}}) {
    SCOPED_TRACE(test.num_devices);
    const std::string job = "plan --model gpt3-13b --cluster dgx-a100-80gb --devices " +
                            std::to_string(test.num_devices);
    const nlohmann::json answer = RunForJson(job + " --top 1", folder_);
    const nlohmann::json& practice = answer["best_practice"];
    ExpectCompleteRow(practice, static_cast<size_t>(test.pipeline_parallel_size));
    EXPECT_EQ(practice["layout"]["tensor_parallel_size"], 8);
    EXPECT_EQ(practice["layout"]["pipeline_parallel_size"], test.pipeline_parallel_size);
    EXPECT_EQ(practice["layout"]["data_parallel_size"],
              test.num_devices / 8 / test.pipeline_parallel_size);
    EXPECT_LE(answer["rows"][0]["step_time_s"], practice["step_time_s"]);
    EXPECT_THAT(RunWell(job, folder_),
                ContainsRegex("TP 8, PP " + std::to_string(test.pipeline_parallel_size)));
  }
}

TEST_F(PlanCommandTest, EveryPinIsKept) {
  const nlohmann::json answer = RunForJson(
      "plan --model gpt3-1.3b --cluster dgx-a100-80gb --devices 16 --global-batch-size 64 --tp 2 "
      "--pp 2 --dp 4 --micro-batch-size 2 --recompute selective --zero-stage 0 "
      "--sequence-parallel false --schedule gpipe --precision fp16 --target tessera",
      folder_);
  ASSERT_EQ(answer["rows"].size(), 1U);
  const nlohmann::json& layout = answer["rows"][0]["layout"];
  EXPECT_EQ(layout["tensor_parallel_size"], 2);
  EXPECT_EQ(layout["pipeline_parallel_size"], 2);
  EXPECT_EQ(layout["data_parallel_size"], 4);
  EXPECT_EQ(layout["micro_batch_size"], 2);
  EXPECT_EQ(layout["recompute"], "selective");
  EXPECT_EQ(layout["zero_stage"], 0);
  EXPECT_EQ(layout["sequence_parallel"], false);
  EXPECT_EQ(layout["schedule"], "gpipe");
  EXPECT_EQ(answer["precision"], "fp16");
}

}  // namespace
}  // namespace tessera::testing
