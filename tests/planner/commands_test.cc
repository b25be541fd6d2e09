// The commands as functions: exit codes, messages, JSON.
#include "planner/cli/commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "cost_model/base/error.h"
#include "cost_model/spec/spec_json.h"

namespace tessera::planner {
namespace {

using ::testing::HasSubstr;

struct Outcome {
  int exit_code = 0;
  std::string out;
  std::string err;
};

// Parses `line` as a user would type it. Errors are thrown on, but for an infeasible answer.
Outcome RunCommand(const std::string& line) {
  CLI::App app("test", "tessera");
  Outcome outcome;
  AddPlanCommand(app);
  AddEstimateCommand(app);
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  try {
    app.parse(line);
  } catch (const base::InfeasibleError&) {
    outcome.exit_code = base::kExitInfeasible;
  } catch (...) {
    ::testing::internal::GetCapturedStdout();
    ::testing::internal::GetCapturedStderr();
    throw;
  }
  outcome.out = ::testing::internal::GetCapturedStdout();
  outcome.err = ::testing::internal::GetCapturedStderr();
  return outcome;
}

std::string ErrorOf(const std::string& line) {
  try {
    RunCommand(line);
  } catch (const base::ConfigError& error) {
    return error.what();
  } catch (const CLI::ParseError& error) {
    return error.what();
  }
  return "no error";
}

const std::string kSmallJob = " --model gpt3-1.3b --cluster dgx-a100-80gb --global-batch-size 64 ";

TEST(EstimateCommandTest, JsonHoldsTheKeysOfTheDesign) {
  const Outcome outcome = RunCommand("estimate" + kSmallJob + "--tp 2 --pp 2 --format json");
  EXPECT_EQ(outcome.exit_code, base::kExitDone);
  const auto row = nlohmann::json::parse(outcome.out);
  for (const char* key : {"feasible", "violations", "layout", "step_time_s", "tokens_per_s",
                          "tokens_per_s_per_device", "model_tflops_per_device",
                          "hardware_tflops_per_device", "mfu", "hfu", "memory", "time"}) {
    EXPECT_TRUE(row.contains(key)) << key;
  }
  EXPECT_TRUE(row["feasible"].get<bool>());
  double sum_s = 0;
  for (const char* key : {"compute_s", "tp_comm_s", "pp_comm_s", "dp_comm_s", "cp_comm_s",
                          "ep_comm_s", "bubble_s", "optimizer_s", "other_s"}) {
    ASSERT_TRUE(row["time"].contains(key)) << key;
    sum_s += row["time"][key].get<double>();
  }
  sum_s += row["time"].value("straggler_s", 0.0);
  const double step_s = row["step_time_s"];
  EXPECT_NEAR(sum_s, step_s, 1e-12 * step_s);
  ASSERT_EQ(row["memory"]["stages"].size(), 2u);
  for (const char* key : {"weights_bytes", "gradients_bytes", "optimizer_bytes",
                          "activations_bytes", "buffers_bytes"}) {
    EXPECT_TRUE(row["memory"]["stages"][0].contains(key)) << key;
  }
  EXPECT_DOUBLE_EQ(row["tokens_per_s"].get<double>() * step_s, 64.0 * 2048);
}

TEST(EstimateCommandTest, CausalConventionHalvesAttention) {
  const auto full = nlohmann::json::parse(RunCommand("estimate" + kSmallJob + "--format json").out);
  const auto causal = nlohmann::json::parse(
      RunCommand("estimate" + kSmallJob + "--format json --flops-convention causal").out);
  EXPECT_EQ(full["step_time_s"], causal["step_time_s"]);
  // 3 * 2 * tokens * s * h * layers: half of the products of scores and values.
  const double tokens = 64.0 * 2048;
  EXPECT_NEAR(full["model_flops"].get<double>() - causal["model_flops"].get<double>(),
              6 * tokens * 2048 * 2048 * 24, 1e6);
}

TEST(EstimateCommandTest, MegatronNamesAreTheSameFlags) {
  EXPECT_EQ(
      RunCommand("estimate" + kSmallJob + "--tp 2 --pp 2 --vpp 2 --sequence-parallel true").out,
      RunCommand("estimate" + kSmallJob +
                 "--tensor-model-parallel-size 2 --pipeline-model-parallel-size 2 "
                 "--virtual-pipeline-model-parallel-size 2 --sequence-parallel")
          .out);
}

TEST(EstimateCommandTest, BrokenRulesAreAnAnswerWithExitThree) {
  struct Case {
    const char* flags;
    const char* constraint;
  };
  for (const Case& test :
       {Case{"--tp 6 --devices 12", "heads % tp"},
        Case{"--micro-batch-size 48", "global batch % (micro batch * dp)"},
        Case{"--pp 32 --devices 32", "layers >= stages"},
        Case{"--tp 2 --pp 3", "devices % (tp * cp * pp)"}, Case{"--ep 2", "ep needs experts"},
        Case{"--seq-length 4096", "sequence <= positions"}}) {
    const Outcome outcome =
        RunCommand("estimate" + kSmallJob + test.flags + std::string(" --format json"));
    EXPECT_EQ(outcome.exit_code, base::kExitInfeasible) << test.flags;
    const auto row = nlohmann::json::parse(outcome.out);
    EXPECT_FALSE(row["feasible"].get<bool>());
    bool is_named = false;
    for (const auto& violation : row["violations"]) {
      is_named = is_named || violation["constraint"] == test.constraint;
    }
    EXPECT_TRUE(is_named) << test.flags << " gives " << row["violations"];
  }
}

TEST(EstimateCommandTest, TooLittleMemoryGetsRepairs) {
  const Outcome outcome = RunCommand(
      "estimate --model gpt3-13b --cluster dgx-a100-40gb --global-batch-size 64 --tp 2 --pp 2");
  EXPECT_EQ(outcome.exit_code, base::kExitInfeasible);
  EXPECT_THAT(outcome.out, HasSubstr("device memory: the fullest stage needs"));
  EXPECT_THAT(outcome.out, HasSubstr("What would make it fit:"));
}

TEST(EstimateCommandTest, WrongInputNamesFlagAndValue) {
  EXPECT_THAT(ErrorOf("estimate --model no-such --cluster dgx-a100-80gb"), HasSubstr("no-such"));
  EXPECT_THAT(ErrorOf("estimate --model gpt3-1.3b --cluster no-such"), HasSubstr("no-such"));
  EXPECT_THAT(ErrorOf("estimate" + kSmallJob + "--tp -1"),
              HasSubstr("--tp: found -1, expected a whole number of at least 1"));
  EXPECT_THAT(ErrorOf("estimate" + kSmallJob + "--devices 0"), HasSubstr("--devices: found 0"));
  EXPECT_THAT(ErrorOf("estimate" + kSmallJob + "--recompute some"), HasSubstr("--recompute"));
  EXPECT_THAT(ErrorOf("estimate" + kSmallJob + "--precision fp8"), HasSubstr("fp8"));
  EXPECT_THAT(ErrorOf("estimate" + kSmallJob + "--no-such-flag"), HasSubstr("--no-such-flag"));
  EXPECT_THAT(ErrorOf("estimate --cluster dgx-a100-80gb"), HasSubstr("--model is required"));
  EXPECT_THAT(ErrorOf("estimate" + kSmallJob + "--rank-order tp-dp"), HasSubstr("rank_order"));
}

TEST(EstimateCommandTest, AMegatronFileSetsLayoutUnlessFlagsDo) {
  const std::string path = ::testing::TempDir() + "/megatron_arguments.json";
  std::ofstream(path) << R"({"num_layers": 24, "hidden_size": 2048, "num_attention_heads": 16,
      "seq_length": 1024, "max_position_embeddings": 1024, "vocab_size": 50304,
      "tensor_model_parallel_size": 4, "micro_batch_size": 2, "global_batch_size": 32,
      "bf16": true})";
  const auto row = nlohmann::json::parse(
      RunCommand("estimate --model " + path + " --cluster dgx-a100-80gb --micro-batch-size 4" +
                 " --format json")
          .out);
  EXPECT_EQ(row["layout"]["tensor_parallel_size"], 4);
  EXPECT_EQ(row["layout"]["micro_batch_size"], 4);
  EXPECT_EQ(row["layout"]["data_parallel_size"], 2);
  EXPECT_EQ(row["global_batch_size"], 32);
  EXPECT_EQ(row["sequence_length"], 1024);
  std::filesystem::remove(path);
}

TEST(PlanCommandTest, WritesThePlanOfItsFirstRow) {
  const std::string path = ::testing::TempDir() + "/chosen_plan.json";
  const Outcome outcome =
      RunCommand("plan" + kSmallJob + "--steps 7 --seed 3 --format json --out " + path);
  EXPECT_EQ(outcome.exit_code, base::kExitDone);
  const auto answer = nlohmann::json::parse(outcome.out);
  const spec::Plan plan = spec::ReadPlan(path);
  EXPECT_EQ(plan.training.steps, 7);
  EXPECT_EQ(plan.training.seed, 3u);
  EXPECT_EQ(plan.num_devices, 8);
  ASSERT_TRUE(plan.prediction.has_value());
  EXPECT_DOUBLE_EQ(plan.prediction->step_time_s, answer["rows"][0]["step_time_s"]);
  EXPECT_EQ(plan.parallel.tensor_parallel_size,
            answer["rows"][0]["layout"]["tensor_parallel_size"]);
  EXPECT_TRUE(answer.contains("best_practice"));
  EXPECT_FALSE(answer["explanation"].empty());
  std::filesystem::remove(path);
}

TEST(PlanCommandTest, TopSetsTheRows) {
  const auto answer =
      nlohmann::json::parse(RunCommand("plan" + kSmallJob + "--top 3 --format json").out);
  EXPECT_EQ(answer["rows"].size(), 3u);
}

TEST(PlanCommandTest, NothingThatFitsIsExitThreeWithCountsAndRepairs) {
  const Outcome outcome = RunCommand(
      "plan --model gpt3-175b --cluster dgx-a100-80gb --devices 16 --global-batch-size 64");
  EXPECT_EQ(outcome.exit_code, base::kExitInfeasible);
  EXPECT_THAT(outcome.out, HasSubstr("No layout fits."));
  EXPECT_THAT(outcome.out, HasSubstr("layouts by device memory"));
  EXPECT_THAT(outcome.out,
              HasSubstr("bp: the best-practice table, TP 8, PP 2: infeasible by device"));
  EXPECT_THAT(outcome.out, HasSubstr("64 devices: "));
}

TEST(PlanCommandTest, QuietLeavesTheResultAndDropsTheNotes) {
  const std::string job = "estimate --model gpt3-1.3b --cluster dgx-a100-80gb ";
  const Outcome told = RunCommand(job);
  EXPECT_THAT(told.err, HasSubstr("--global-batch-size is not given: taking 512 samples"));
  const Outcome quiet = RunCommand(job + "--quiet");
  EXPECT_EQ(quiet.err, "");
  EXPECT_EQ(quiet.out, told.out);
  EXPECT_THAT(RunCommand("plan" + kSmallJob + "--quiet").out, HasSubstr("Choice: "));
}

}  // namespace
}  // namespace tessera::planner
