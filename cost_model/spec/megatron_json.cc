// Megatron-LM's arguments as a model.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cost_model/base/check.h"
#include "cost_model/spec/import_json.h"
#include "cost_model/spec/megatron_arguments_json.h"
#include "cost_model/spec/megatron_layout_json.h"
#include "cost_model/spec/plan_json.h"

namespace tessera::spec {
namespace {

using base::Concat;
using nlohmann::json;

using Names = std::vector<std::string>;

// Arguments of runs that touch neither the mathematics of a step nor its layout; dropout and the
// auxiliary losses of experts, which no model here has.
const Names kSkipped = {"accumulate_allreduce_grads_in_fp32",
                        "apply_query_key_layer_scaling",
                        "apply_rope_fusion",
                        "async_save",
                        "async_tensor_model_parallel_allreduce",
                        "attention_dropout",
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
                        "hidden_dropout",
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
                        "moe_aux_loss_coeff",
                        "moe_grouped_gemm",
                        "moe_permute_fusion",
                        "moe_router_dtype",
                        "moe_router_load_balancing_type",
                        "moe_token_dispatcher_type",
                        "moe_z_loss_coeff",
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
                        "overlap_param_gather",
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
                        "tp_comm_overlap",
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

void ReadSizes(MegatronArguments& arguments, const TrainingSpec& training, ModelSpec& model) {
  model.num_layers = static_cast<int>(arguments.RequiredInteger({"num_layers"}));
  model.hidden_size = arguments.RequiredInteger({"hidden_size"});
  const int heads = static_cast<int>(arguments.RequiredInteger({"num_attention_heads"}));
  model.num_attention_heads = model.num_key_value_heads = heads;
  const std::optional<int64_t> groups = arguments.Integer({"num_query_groups"});
  const std::optional<bool> grouped = arguments.Flag({"group_query_attention"});
  if (grouped.value_or(groups.has_value())) {
    model.num_key_value_heads = static_cast<int>(groups.value_or(1));
  }
  const std::optional<int64_t> head_dim = arguments.Integer({"kv_channels"});
  model.head_dim = head_dim.value_or(model.hidden_size / heads);

  const bool swiglu = arguments.FlagOr({"swiglu"}, false);
  model.activation = swiglu ? ActivationKind::kSwiGlu : ActivationKind::kGelu;
  // With a gate, two thirds of the width in multiples of 64: about as many parameters as without.
  const int64_t default_width =
      swiglu ? 4 * model.hidden_size * 2 / 3 / 64 * 64 : 4 * model.hidden_size;
  model.ffn_hidden_size = arguments.Integer({"ffn_hidden_size"}).value_or(default_width);

  constexpr int64_t kGpt2VocabSize = 50257;
  const std::optional<int64_t> vocab_size = arguments.Integer({"vocab_size"});
  const std::optional<int64_t> padded_size = arguments.Integer({"padded_vocab_size"});
  model.vocab_size = vocab_size.value_or(padded_size.value_or(kGpt2VocabSize));
  const std::optional<int64_t> positions = arguments.Integer({"max_position_embeddings"});
  model.max_sequence_length = positions.value_or(training.sequence_length);
}

void ReadNormAndPositions(MegatronArguments& arguments, ModelSpec& model) {
  const std::optional<std::size_t> norm =
      arguments.Choice({"normalization"}, {"LayerNorm", "RMSNorm"});
  model.norm = norm.value_or(0) == 1 ? NormKind::kRmsNorm : NormKind::kLayerNorm;
  model.norm_epsilon =
      arguments.Number({"norm_epsilon", "layernorm_epsilon"}, kPositive).value_or(1e-5);
  const std::optional<std::size_t> position =
      arguments.Choice({"position_embedding_type"}, {"learned_absolute", "rope", "none"});
  const bool rotary = arguments.FlagOr({"use_rotary_position_embeddings"}, false);
  model.position = rotary ? PositionKind::kRope : PositionKind::kLearned;
  if (position) {
    constexpr PositionKind kKinds[] = {PositionKind::kLearned, PositionKind::kRope,
                                       PositionKind::kNone};
    model.position = kKinds[*position];
  }
  model.rope_theta = arguments.Number({"rotary_base"}, kPositive).value_or(10000);
  const bool scaled = arguments.FlagOr({"use_rope_scaling"}, false);
  const double factor =
      arguments.Number({"rope_scaling_factor", "rotary_scaling_factor"}, kPositive).value_or(8);
  if (scaled) model.rope_scaling = RopeScaling{.factor = factor};
  arguments.Only("rotary_percent", 1.0, "rotary positions over the whole head");
  arguments.Only("rotary_interleaved", false, "halves of a head turned together");
}

void ReadBiasesAndTying(MegatronArguments& arguments, ModelSpec& model) {
  const std::optional<bool> added = arguments.Flag({"add_bias_linear"});
  const bool disabled = arguments.FlagOr({"disable_bias_linear"}, false);
  const bool bias = added.value_or(!disabled) && !disabled;
  model.attention_output_bias = model.mlp_bias = bias;
  model.qkv_bias = arguments.FlagOr({"add_qkv_bias"}, false) || bias;
  const std::optional<bool> untied = arguments.Flag({"untie_embeddings_and_output_weights"});
  const std::optional<bool> shared = arguments.Flag({"share_embeddings_and_output_weights"});
  model.tied_embeddings = shared.value_or(!untied.value_or(false));
  model.init_standard_deviation = arguments.Number({"init_method_std"}, kPositive).value_or(0.02);
}

void ReadExperts(MegatronArguments& arguments, ModelSpec& model) {
  const std::optional<int64_t> experts = arguments.Integer({"num_experts", "num_moe_experts"});
  const std::optional<int64_t> per_token = arguments.Integer({"moe_router_topk"});
  const std::optional<int64_t> width = arguments.Integer({"moe_ffn_hidden_size"});
  arguments.Only("moe_layer_freq", 1, "experts in every layer");
  arguments.Only("moe_shared_expert_intermediate_size", nullptr, "no shared expert");
  arguments.Only("moe_expert_capacity_factor", nullptr, "no token dropped");
  if (!experts) return;
  constexpr int64_t kDefaultTopK = 2;
  model.moe = MoeSpec{.num_experts = static_cast<int>(*experts),
                      .experts_per_token = static_cast<int>(per_token.value_or(kDefaultTopK)),
                      .expert_ffn_hidden_size = width.value_or(model.ffn_hidden_size)};
}

void RefuseOtherMathematics(MegatronArguments& arguments) {
  arguments.Only("squared_relu", false, "GELU or SwiGLU");
  arguments.Only("apply_layernorm_1p", false, "norms that scale by their weight alone");
  arguments.Only("apply_residual_connection_post_layernorm", false, "residuals before the norm");
  arguments.Only("multi_latent_attention", false, "multi-head or grouped attention");
  arguments.Only("qk_layernorm", false, "no norm of queries and keys");
  arguments.Only("window_size", nullptr, "full attention");
  arguments.Only("mtp_num_layers", nullptr, "one predicted token");
  arguments.Only("eod_mask_loss", false, "every token counted in the loss");
  arguments.Only("reset_position_ids", false, "positions that count through a sample");
  arguments.Only("reset_attention_mask", false, "attention over the whole sample");
  arguments.Only("optimizer", "adam", "AdamW");
  arguments.Skip({"openai_gelu"});  // the tanh approximation, which we take anyway
}

}  // namespace

ModelSpec ModelFromMegatron(const json& document, const std::string& file, TrainingSpec* training,
                            ParallelSpec* parallel, std::vector<std::string>* keys_set) {
  MegatronArguments arguments(document, file);
  std::vector<std::string> keys;
  TrainingSpec read_training = training != nullptr ? *training : TrainingSpec{};
  ParallelSpec read_parallel = parallel != nullptr ? *parallel : ParallelSpec{};
  ModelSpec model;
  model.name = std::filesystem::path(file).stem().string();

  ReadMegatronTraining(arguments, read_training, keys);
  ReadSizes(arguments, read_training, model);
  ReadNormAndPositions(arguments, model);
  ReadBiasesAndTying(arguments, model);
  ReadExperts(arguments, model);
  RefuseOtherMathematics(arguments);
  ReadMegatronLayout(arguments, model.num_layers, read_parallel, keys);
  arguments.Skip(kSkipped);
  arguments.Finish();
  if (model.head_dim == 0 ||
      (!arguments.Given({"kv_channels"}) && model.hidden_size % model.num_attention_heads != 0)) {
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

}  // namespace tessera::spec
