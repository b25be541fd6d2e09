// Megatron-LM's arguments as a model, and a job as Megatron-LM's arguments.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cost_model/base/check.h"
#include "cost_model/spec/import_json.h"
#include "cost_model/spec/megatron_arguments_json.h"
#include "cost_model/spec/megatron_layout_json.h"
#include "cost_model/spec/megatron_model_json.h"
#include "cost_model/spec/megatron_training_json.h"
#include "cost_model/spec/plan_json.h"

namespace tessera::spec {
namespace {

using base::Concat;
using nlohmann::json;

// Arguments of runs that touch neither the mathematics of a step nor its layout, and the auxiliary
// losses of experts, which no model here has.
const std::vector<std::string> kSkipped = {"apply_query_key_layer_scaling",
                                           "apply_rope_fusion",
                                           "async_save",
                                           "async_tensor_model_parallel_allreduce",
                                           "attention_softmax_in_fp32",
                                           "bias_dropout_fusion",
                                           "bias_gelu_fusion",
                                           "bias_swiglu_fusion",
                                           "ckpt_format",
                                           "cross_entropy_loss_fusion",
                                           "data_cache_path",
                                           "data_impl",
                                           "data_path",
                                           "dataloader_type",
                                           "deterministic_mode",
                                           "distributed_backend",
                                           "distributed_timeout_minutes",
                                           "eval_interval",
                                           "eval_iters",
                                           "exit_interval",
                                           "finetune",
                                           "gradient_accumulation_fusion",
                                           "initial_loss_scale",
                                           "load",
                                           "log_interval",
                                           "log_num_zeros_in_grad",
                                           "log_params_norm",
                                           "log_throughput",
                                           "loss_scale",
                                           "loss_scale_window",
                                           "manual_gc",
                                           "manual_gc_interval",
                                           "masked_softmax_fusion",
                                           "merge_file",
                                           "min_loss_scale",
                                           "moe_grouped_gemm",
                                           "moe_permute_fusion",
                                           "moe_router_dtype",
                                           "moe_token_dispatcher_type",
                                           "no_async_tensor_model_parallel_allreduce",
                                           "no_bias_dropout_fusion",
                                           "no_bias_gelu_fusion",
                                           "no_bias_swiglu_fusion",
                                           "no_create_attention_mask_in_dataloader",
                                           "no_gradient_accumulation_fusion",
                                           "no_load_optim",
                                           "no_load_rng",
                                           "no_masked_softmax_fusion",
                                           "no_mmap_bin_files",
                                           "no_persist_layer_norm",
                                           "no_rope_fusion",
                                           "no_save_optim",
                                           "no_save_rng",
                                           "num_workers",
                                           "profile",
                                           "profile_step_end",
                                           "profile_step_start",
                                           "save",
                                           "save_interval",
                                           "split",
                                           "tensorboard_dir",
                                           "tensorboard_log_interval",
                                           "tensorboard_queue_size",
                                           "test_data_path",
                                           "timing_log_level",
                                           "tokenizer_model",
                                           "tokenizer_type",
                                           "train_data_path",
                                           "transformer_impl",
                                           "use_cpu_initialization",
                                           "use_legacy_models",
                                           "use_mcore_models",
                                           "valid_data_path",
                                           "vocab_file",
                                           "wandb_exp_name",
                                           "wandb_project",
                                           "wandb_save_dir"};

void RefuseOtherMathematics(MegatronArguments& arguments) {
  arguments.Only("squared_relu", false, "GELU or SwiGLU");
  arguments.Only("apply_layernorm_1p", false, "norms that scale by their weight alone");
  arguments.Only("apply_residual_connection_post_layernorm", false, "residuals before the norm");
  arguments.Only("eod_mask_loss", false, "every token counted in the loss");
  arguments.Only("reset_position_ids", false, "positions that count through a sample");
  arguments.Only("reset_attention_mask", false, "attention over the whole sample");
  arguments.Skip({"openai_gelu"});  // the tanh approximation, which we take anyway
}

}  // namespace

ModelSpec ModelFromMegatron(const json& document, const std::string& file, bool is_command_line,
                            TrainingSpec* training, ParallelSpec* parallel,
                            std::vector<std::string>* keys_set) {
  MegatronArguments arguments(document, file);
  // A run names its micro-batch size: Megatron-LM demands it.
  const bool is_whole = is_command_line && arguments.Given({"micro_batch_size"});
  std::vector<std::string> keys;
  MegatronFields fields(arguments, keys, is_whole);
  TrainingSpec read_training = training != nullptr ? *training : TrainingSpec{};
  ParallelSpec read_parallel = parallel != nullptr ? *parallel : ParallelSpec{};
  ModelSpec model;
  model.name = std::filesystem::path(file).stem().string();

  VisitMegatronTraining(fields, read_training);
  VisitMegatronModel(fields, model, read_training);
  RefuseOtherMathematics(arguments);
  VisitMegatronLayout(fields, model, read_training, read_parallel);
  arguments.Skip(kSkipped);
  arguments.Finish();
  if (model.head_dim == 0 || (!model.mla && !arguments.Given({"kv_channels"}) &&
                              model.hidden_size % model.num_attention_heads != 0)) {
    arguments.Fail({"hidden_size"}, Concat(model.hidden_size),
                   Concat("a multiple of the ", model.num_attention_heads, " attention heads"));
  }
  if (model.max_sequence_length == 0) {
    arguments.Fail({"max_position_embeddings"}, "nothing", "an integer, or \"seq_length\"");
  }
  CheckModel(model, file);
  if (training != nullptr) *training = read_training;
  if (parallel != nullptr) *parallel = read_parallel;
  if (keys_set != nullptr) keys_set->insert(keys_set->end(), keys.begin(), keys.end());
  return model;
}

MegatronCommand WriteMegatronArguments(const ModelSpec& model, const TrainingSpec& training,
                                       const ParallelSpec& parallel) {
  MegatronCommand command;
  MegatronFields fields(command);
  // Copies: the visits take what they may fill.
  ModelSpec model_copy = model;
  TrainingSpec training_copy = training;
  ParallelSpec parallel_copy = parallel;
  VisitMegatronModel(fields, model_copy, training);
  VisitMegatronLayout(fields, model, training, parallel_copy);
  VisitMegatronTraining(fields, training_copy);
  return command;
}

}  // namespace tessera::spec
