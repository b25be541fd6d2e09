// Plans as the files of other programs. Names and forms are those of the programs' own sources:
// Megatron-LM's argument parser, torchtitan's configuration classes, DeepSpeed's and Megatron-
// Bridge's documentation.
#include "planner/emit.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>

#include "cost_model/base/check.h"
#include "cost_model/spec/spec_json.h"

namespace tessera::planner {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

// Llama 3 70B on 64 H100: tp 8, pp 4, dp 2, 1f1b, ZeRO 1.
spec::Plan Llama70b() {
  spec::Plan plan;
  plan.model = spec::LoadModel("llama3-70b");
  plan.cluster = spec::LoadCluster("dgx-h100");
  plan.num_devices = 64;
  plan.training = {.global_batch_size = 128, .sequence_length = 8192, .steps = 500};
  plan.parallel = {.tensor_parallel_size = 8,
                   .pipeline_parallel_size = 4,
                   .data_parallel_size = 2,
                   .sequence_parallel = true};
  return plan;
}

spec::Plan Mixtral() {
  spec::Plan plan = Llama70b();
  plan.model = spec::LoadModel("mixtral-8x7b");
  plan.training.sequence_length = 4096;
  plan.parallel = {.tensor_parallel_size = 2, .data_parallel_size = 32, .sequence_parallel = true};
  plan.parallel.expert_parallel_size = 8;
  return plan;
}

std::string TextOf(EmitTarget target, const spec::Plan& plan) {
  const Emission emission = Emit(target, plan, spec::RuntimeSpec{});
  EXPECT_THAT(emission.violations, IsEmpty())
      << ToString(target) << ": " << emission.violations.front().message;
  return emission.text;
}

std::vector<std::string> ConstraintsOf(EmitTarget target, const spec::Plan& plan) {
  std::vector<std::string> constraints;
  for (const auto& violation : Emit(target, plan, spec::RuntimeSpec{}).violations) {
    EXPECT_FALSE(violation.message.empty());
    constraints.push_back(violation.constraint);
  }
  return constraints;
}

// The value that a line "key = value", "key: value" or "--key value" gives.
std::string ValueOf(const std::string& text, const std::string& key) {
  std::smatch match;
  const std::regex line(base::Concat("(^|\\n) *(--)?", key, "( = |: | |(?=\\n))([^\\n]*)"));
  return std::regex_search(text, match, line) ? match[4].str() : "absent";
}

TEST(EmitTest, MegatronGetsOneArgumentALine) {
  const std::string text = TextOf(EmitTarget::kMegatron, Llama70b());
  EXPECT_EQ(ValueOf(text, "num-layers"), "80");
  EXPECT_EQ(ValueOf(text, "ffn-hidden-size"), "28672");
  EXPECT_EQ(ValueOf(text, "num-query-groups"), "8");
  EXPECT_EQ(ValueOf(text, "tensor-model-parallel-size"), "8");
  EXPECT_EQ(ValueOf(text, "pipeline-model-parallel-size"), "4");
  EXPECT_EQ(ValueOf(text, "sequence-parallel"), "");
  EXPECT_EQ(ValueOf(text, "use-distributed-optimizer"), "");
  EXPECT_EQ(ValueOf(text, "overlap-grad-reduce"), "");
  EXPECT_EQ(ValueOf(text, "train-iters"), "500");
  EXPECT_EQ(ValueOf(text, "attention-dropout"), "0.0");
  EXPECT_EQ(ValueOf(text, "num-layers-per-virtual-pipeline-stage"), "absent");
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    EXPECT_TRUE(line.empty() || line.starts_with("#") || line.starts_with("--")) << line;
  }
}

TEST(EmitTest, MegatronNeedsOneConnectionWithTensorParallelismAndNotWithFsdp) {
  spec::Plan plan = Llama70b();
  EXPECT_THAT(TextOf(EmitTarget::kMegatron, plan),
              HasSubstr("export CUDA_DEVICE_MAX_CONNECTIONS=1\n"));
  plan.parallel = {.data_parallel_size = 64, .zero_stage = 3};
  EXPECT_THAT(TextOf(EmitTarget::kMegatron, plan),
              HasSubstr("unset CUDA_DEVICE_MAX_CONNECTIONS\n"));
  EXPECT_EQ(ValueOf(TextOf(EmitTarget::kMegatron, plan), "data-parallel-sharding-strategy"),
            "optim_grads_params");
}

TEST(EmitTest, EveryHintHasItsReasonAboveIt) {
  const std::string text = TextOf(EmitTarget::kSlurm, Llama70b());
  std::istringstream lines(text);
  std::string before;
  int num_hints = 0;
  for (std::string line; std::getline(lines, line); before = line) {
    if (!line.starts_with("export NCCL") && !line.starts_with("export CUDA")) continue;
    EXPECT_TRUE(before.starts_with("# ")) << line;
    ++num_hints;
  }
  EXPECT_GE(num_hints, 2);
}

TEST(EmitTest, OneNodeNeedsNoFabric) {
  spec::Plan plan = Llama70b();
  plan.num_devices = 8;
  plan.parallel.pipeline_parallel_size = plan.parallel.data_parallel_size = 1;
  EXPECT_THAT(TextOf(EmitTarget::kMegatron, plan), Not(HasSubstr("NCCL_IB")));
}

TEST(EmitTest, DropoutIsTheRuntimes) {
  spec::RuntimeSpec runtime;
  runtime.hidden_dropout = true;
  const std::string text = Emit(EmitTarget::kMegatron, Llama70b(), runtime).text;
  EXPECT_EQ(ValueOf(text, "hidden-dropout"), "0.1");
  EXPECT_EQ(ValueOf(text, "attention-dropout"), "0.0");
}

TEST(EmitTest, ExpertsGetTheirArguments) {
  const std::string text = TextOf(EmitTarget::kMegatron, Mixtral());
  EXPECT_EQ(ValueOf(text, "num-experts"), "8");
  EXPECT_EQ(ValueOf(text, "moe-router-topk"), "2");
  EXPECT_EQ(ValueOf(text, "expert-model-parallel-size"), "8");
  EXPECT_EQ(ValueOf(text, "moe-grouped-gemm"), "");
  EXPECT_EQ(ValueOf(text, "moe-token-dispatcher-type"), "alltoall");
}

TEST(EmitTest, ASlurmScriptAsksForTheNodesOfThePlan) {
  const std::string text = TextOf(EmitTarget::kSlurm, Llama70b());
  EXPECT_TRUE(text.starts_with("#!/bin/bash\n#SBATCH"));
  EXPECT_THAT(text, HasSubstr("#SBATCH --nodes=8\n"));
  EXPECT_THAT(text, HasSubstr("#SBATCH --gpus-per-node=8\n"));
  EXPECT_THAT(text, HasSubstr("--nproc-per-node 8 "));
  EXPECT_THAT(text, HasSubstr("MASTER_ADDR=$(scontrol show hostnames"));
  EXPECT_THAT(text, HasSubstr("CONTAINER_IMAGE=FILL-IN"));
  EXPECT_THAT(text, HasSubstr("\n  --tensor-model-parallel-size 8\n"));
}

TEST(EmitTest, DevicesThatFillNoNodesAreNotForSlurm) {
  spec::Plan plan = Llama70b();
  plan.num_devices = 12;
  plan.parallel = {.tensor_parallel_size = 4, .data_parallel_size = 3, .sequence_parallel = true};
  EXPECT_THAT(ConstraintsOf(EmitTarget::kSlurm, plan), Contains("devices % node"));
}

TEST(EmitTest, NemoOverridesTheRecipesFields) {
  const std::string text = TextOf(EmitTarget::kNemo, Llama70b());
  for (const char* section : {"model:", "train:", "optimizer:", "scheduler:", "ddp:",
                              "mixed_precision:", "dataset:", "rng:", "comm_overlap:"}) {
    EXPECT_THAT(text, HasSubstr(base::Concat("\n", section, "\n")));
  }
  EXPECT_EQ(ValueOf(text, "tensor_model_parallel_size"), "8");
  EXPECT_EQ(ValueOf(text, "num_query_groups"), "8");
  EXPECT_EQ(ValueOf(text, "gated_linear_unit"), "true");
  EXPECT_EQ(ValueOf(text, "share_embeddings_and_output_weights"), "false");
  EXPECT_EQ(ValueOf(text, "layernorm_epsilon"), "1.0e-05");  // YAML 1.1's form of a number
  EXPECT_EQ(ValueOf(text, "sequence_length"), "8192");
  EXPECT_EQ(ValueOf(text, "grad_reduce_in_fp32"), "true");
  EXPECT_EQ(ValueOf(text, "virtual_pipeline_model_parallel_size"), "null");
}

TEST(EmitTest, NemoNamesExpertsAsMegatronCoreDoes) {
  const std::string text = TextOf(EmitTarget::kNemo, Mixtral());
  EXPECT_EQ(ValueOf(text, "num_moe_experts"), "8");
  EXPECT_EQ(ValueOf(text, "expert_model_parallel_size"), "8");
}

TEST(EmitTest, TorchtitanGetsDegrees) {
  spec::Plan plan = Llama70b();
  plan.parallel.zero_stage = 3;
  const std::string text = TextOf(EmitTarget::kTorchtitan, plan);
  EXPECT_EQ(ValueOf(text, "flavor"), "\"70B\"");
  EXPECT_EQ(ValueOf(text, "data_parallel_shard_degree"), "2");
  EXPECT_EQ(ValueOf(text, "data_parallel_replicate_degree"), "1");
  EXPECT_EQ(ValueOf(text, "tensor_parallel_degree"), "8");
  EXPECT_EQ(ValueOf(text, "pipeline_parallel_degree"), "4");
  EXPECT_EQ(ValueOf(text, "pipeline_parallel_schedule"), "\"1F1B\"");
  EXPECT_EQ(ValueOf(text, "pipeline_parallel_microbatch_size"), "1");
  EXPECT_EQ(ValueOf(text, "fsdp_reshard_after_forward"), "\"always\"");
  EXPECT_EQ(ValueOf(text, "local_batch_size"), "64");  // 128 over 2 replicas, cut by the pipeline
  EXPECT_EQ(ValueOf(text, "global_batch_size"), "128");
  EXPECT_EQ(ValueOf(text, "mode"), "\"none\"");
  EXPECT_THAT(text, HasSubstr("  [\"tok_embeddings\", \"layers.0\""));
  EXPECT_THAT(text, HasSubstr("\"layers.79\", \"norm\", \"output\"],"));
}

TEST(EmitTest, TorchtitanAccumulatesPassesWithoutAPipeline) {
  spec::Plan plan = Llama70b();
  plan.parallel = {.tensor_parallel_size = 8, .data_parallel_size = 8, .sequence_parallel = true};
  plan.parallel.micro_batch_size = 2;
  plan.parallel.recompute = spec::Recompute::kFull;
  plan.parallel.zero_stage = 2;
  plan.parallel.zero_group_size = 4;
  const std::string text = TextOf(EmitTarget::kTorchtitan, plan);
  EXPECT_EQ(ValueOf(text, "local_batch_size"), "2");
  EXPECT_EQ(ValueOf(text, "mode"), "\"full\"");
  EXPECT_EQ(ValueOf(text, "fsdp_reshard_after_forward"), "\"never\"");
  EXPECT_EQ(ValueOf(text, "data_parallel_replicate_degree"), "2");
  EXPECT_EQ(ValueOf(text, "data_parallel_shard_degree"), "4");
}

TEST(EmitTest, TorchtitanRefusesWhatItLacks) {
  spec::Plan plan = Llama70b();
  plan.parallel.sequence_parallel = false;
  EXPECT_THAT(ConstraintsOf(EmitTarget::kTorchtitan, plan), Contains("sequence parallelism"));
  plan = Llama70b();
  plan.model = spec::LoadModel("gpt3-13b");
  EXPECT_THAT(ConstraintsOf(EmitTarget::kTorchtitan, plan), Contains("model"));
  plan = Llama70b();
  plan.training.precision = spec::Precision::kFp16;
  EXPECT_THAT(ConstraintsOf(EmitTarget::kTorchtitan, plan), Contains("precision"));
  plan = Llama70b();
  plan.parallel.schedule = spec::ScheduleKind::kZeroBubbleH1;
  EXPECT_THAT(ConstraintsOf(EmitTarget::kTorchtitan, plan), Contains("schedule"));
  plan = Llama70b();
  plan.parallel.zero_stage = 0;
  EXPECT_THAT(ConstraintsOf(EmitTarget::kTorchtitan, plan), Contains("zero stage"));
}

TEST(EmitTest, AStandInIsWarnedOf) {
  const Emission emission = Emit(EmitTarget::kTorchtitan, Llama70b(), spec::RuntimeSpec{});
  EXPECT_THAT(emission.warnings, Contains(HasSubstr("torchtitan has no ZeRO 1")));
  EXPECT_THAT(emission.text, HasSubstr("# - torchtitan has no ZeRO 1"));
}

TEST(EmitTest, DeepspeedsBatchSizesMultiply) {
  const Emission emission = Emit(EmitTarget::kDeepspeed, Llama70b(), spec::RuntimeSpec{});
  EXPECT_THAT(emission.violations, IsEmpty());
  const auto config = nlohmann::json::parse(emission.text);
  EXPECT_EQ(config["train_batch_size"], 128);
  EXPECT_EQ(config["train_micro_batch_size_per_gpu"], 1);
  EXPECT_EQ(config["gradient_accumulation_steps"], 64);  // 128 = 1 x 64 x dp 2
  EXPECT_EQ(config["zero_optimization"]["stage"], 1);
  EXPECT_EQ(config["bf16"]["enabled"], true);
  EXPECT_EQ(config["data_types"]["grad_accum_dtype"], "fp32");
  EXPECT_EQ(emission.second_suffix, ".args.txt");
  const std::string& arguments = emission.second_text;
  EXPECT_EQ(ValueOf(arguments, "num-key-value-heads"), "8");
  EXPECT_EQ(ValueOf(arguments, "normalization"), "rmsnorm");
  EXPECT_EQ(ValueOf(arguments, "rotary-position-embeddings-theta"), "500000");
  EXPECT_EQ(ValueOf(arguments, "deepspeed_config"), "ds_config.json");
  EXPECT_EQ(ValueOf(arguments, "zero-stage"), "1");
  EXPECT_EQ(ValueOf(arguments, "use-flash-attn-v2"), "");
  EXPECT_EQ(ValueOf(arguments, "no-pipeline-parallel"), "absent");
}

TEST(EmitTest, DeepspeedShardsAndOffloads) {
  spec::Plan plan = Llama70b();
  plan.parallel = {.data_parallel_size = 64, .zero_stage = 3, .offload_optimizer = true};
  const auto config = nlohmann::json::parse(TextOf(EmitTarget::kDeepspeed, plan));
  EXPECT_EQ(config["zero_optimization"]["stage"], 3);
  EXPECT_EQ(config["zero_optimization"]["offload_optimizer"]["device"], "cpu");
}

TEST(EmitTest, DeepspeedRefusesWhatItLacks) {
  spec::Plan plan = Llama70b();
  plan.parallel.zero_stage = 2;  // with a pipeline
  EXPECT_THAT(ConstraintsOf(EmitTarget::kDeepspeed, plan), Contains("zero stage"));
  plan = Llama70b();
  plan.parallel.virtual_pipeline_size = 2;
  plan.parallel.schedule = spec::ScheduleKind::kInterleaved;
  EXPECT_THAT(ConstraintsOf(EmitTarget::kDeepspeed, plan), Contains("schedule"));
  plan = Llama70b();
  plan.parallel.layers_per_virtual_stage = {19, 20, 21, 20};
  EXPECT_THAT(ConstraintsOf(EmitTarget::kDeepspeed, plan), Contains("uneven stages"));
  plan = Llama70b();
  plan.training.precision = spec::Precision::kFp8;
  EXPECT_THAT(ConstraintsOf(EmitTarget::kDeepspeed, plan), Contains("model"));
  plan = Llama70b();
  plan.parallel.data_parallel_size = 1;
  plan.parallel.context_parallel_size = 2;
  EXPECT_THAT(ConstraintsOf(EmitTarget::kDeepspeed, plan), Contains("context parallelism"));
}

TEST(EmitTest, EveryPrecisionIsWrittenForNemo) {
  spec::Plan plan = Llama70b();
  for (int i = 0; spec::ToString(static_cast<spec::Precision>(i)) != "?"; ++i) {
    plan.training.precision = static_cast<spec::Precision>(i);
    EXPECT_THAT(TextOf(EmitTarget::kNemo, plan), HasSubstr("mixed_precision:"));
  }
}

TEST(EmitTest, EveryPresetIsWrittenOrRefusedForEveryTarget) {
  for (const std::string& name : spec::ListPresets("models")) {
    spec::Plan plan = Llama70b();
    plan.model = spec::LoadModel(name);
    plan.training.sequence_length = plan.model.max_sequence_length;
    plan.num_devices = 8;
    plan.parallel = {.data_parallel_size = 8};
    for (const std::string& target_name : EmitTargetNames()) {
      const EmitTarget target = *EmitTargetFromString(target_name);
      const Emission emission = Emit(target, plan, spec::RuntimeSpec{});
      EXPECT_TRUE(!emission.violations.empty() || emission.text.size() > 200)
          << name << " for " << target_name;
    }
  }
}

}  // namespace
}  // namespace tessera::planner
