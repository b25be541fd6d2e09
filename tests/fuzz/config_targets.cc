// Plans, models in every form, clusters, runtimes, hyper-parameters.
#include "cost_model/spec/spec_json.h"
#include "engine/train/engine_limits.h"
#include "tests/engine/data_test_files.h"
#include "tests/fuzz/fuzz_target.h"

namespace tessera::fuzz {
namespace {

using engine::test::ReadFile;

std::string Preset(const char* kind, const char* name) {
  return ReadFile(spec::PresetPath(kind, name));
}

spec::Plan SmallPlan() {
  spec::Plan plan;
  plan.model = spec::LoadModel("gpt2-124m");
  plan.cluster = spec::LoadCluster("dgx-h100");
  plan.training = {.global_batch_size = 8, .sequence_length = 64};
  plan.parallel = {
      .pipeline_parallel_size = 2, .data_parallel_size = 2, .layers_per_virtual_stage = {5, 7}};
  plan.num_devices = 4;
  return plan;
}

void ReadExecutablePlan(const std::string& path) { engine::CheckExecutable(spec::ReadPlan(path)); }

void ReadModel(const std::string& path) {
  spec::TrainingSpec training;
  spec::ParallelSpec parallel;
  std::vector<std::string> keys_set;
  const spec::ModelSpec model = spec::LoadModel(path, &training, &parallel, &keys_set);
  FindViolations(model, training, parallel, /*num_devices=*/0);
}

constexpr char kHuggingFace[] = R"({"model_type": "mixtral", "vocab_size": 320, "hidden_size": 64,
 "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
 "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "rope_theta": 1e6, "num_local_experts": 4,
 "num_experts_per_tok": 2, "hidden_act": "silu", "tie_word_embeddings": false})";
constexpr char kMegatron[] = R"({"num_layers": 24, "hidden_size": 1024, "num_attention_heads": 16,
 "seq_length": 1024, "max_position_embeddings": 1024, "tensor_model_parallel_size": 2,
 "micro_batch_size": 4, "global_batch_size": 512, "bf16": true})";
constexpr char kArguments[] =
    "--num-layers 24 --hidden-size 1024 --num-attention-heads 16 --seq-length 1024\n"
    "--max-position-embeddings 1024 --tensor-model-parallel-size 2 --micro-batch-size 4 --bf16\n";
constexpr char kYaml[] =
    "language_model:\n  max_position_embeddings: 1024\n  num_layers: 24\n  hidden_size: 1024\n  "
    "num_attention_heads: 16\n"
    "model_parallel:\n  tensor_model_parallel_size: 2\n";
constexpr char kTraining[] = R"({"steps": 10, "global_batch_size": 8, "seq_length": 64, "lr": 1e-3,
 "lr_warmup_steps": 2, "lr_decay_style": "cosine", "weight_decay": 0.1, "clip_grad": 1.0, "seed": 7})";

}  // namespace

std::vector<FuzzTarget> ConfigTargets() {
  return {FileTarget("plan", ".json", ReadExecutablePlan, {spec::WritePlan(SmallPlan())}),
          FileTarget("model", ".json", ReadModel,
                     {Preset("models", "mixtral-8x7b"), kHuggingFace, kMegatron, kArguments}),
          FileTarget("model_yaml", ".yaml", ReadModel, {kYaml}),
          FileTarget("cluster", ".json", [](const std::string& path) { spec::LoadCluster(path); },
                     {Preset("clusters", "dgx-h100")}),
          FileTarget("runtime", ".json", [](const std::string& path) { spec::LoadRuntime(path); },
                     {Preset("runtimes", "megatron-core")}),
          FileTarget("hyperparameters", ".json",
                     [](const std::string& path) {
                       spec::TrainingSpec training;
                       spec::LoadHyperparameters(path, training);
                     },
                     {kTraining})};
}

}  // namespace tessera::fuzz
