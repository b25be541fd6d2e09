// NeMo: a YAML file that overrides fields of a Megatron-Bridge recipe, made of Megatron-LM's
// arguments: each argument is one or more fields of the recipe's configuration.
#include <algorithm>
#include <cctype>
#include <utility>

#include "cost_model/base/check.h"
#include "planner/emit.h"
#include "planner/emit_environment.h"
#include "planner/emit_megatron.h"
#include "planner/emit_text.h"

namespace tessera::planner {
namespace {

using base::Concat;

struct Rule {
  const char* argument;
  const char* section;  // of the recipe; null: says nothing to it
  const char* key;
  const char* value;  // null: the argument's
};

// Fields whose names are the arguments' own.
constexpr const char* kModelArguments[] = {"num_layers",
                                           "hidden_size",
                                           "num_attention_heads",
                                           "num_query_groups",
                                           "kv_channels",
                                           "ffn_hidden_size",
                                           "vocab_size",
                                           "normalization",
                                           "position_embedding_type",
                                           "rotary_base",
                                           "rope_scaling_factor",
                                           "rope_type",
                                           "init_method_std",
                                           "window_attn_skip_freq",
                                           "mtp_num_layers",
                                           "q_lora_rank",
                                           "kv_lora_rank",
                                           "qk_head_dim",
                                           "qk_pos_emb_head_dim",
                                           "v_head_dim",
                                           "moe_router_topk",
                                           "moe_ffn_hidden_size",
                                           "moe_shared_expert_intermediate_size",
                                           "moe_expert_capacity_factor",
                                           "moe_router_load_balancing_type",
                                           "moe_aux_loss_coeff",
                                           "moe_z_loss_coeff",
                                           "moe_token_dispatcher_type",
                                           "tensor_model_parallel_size",
                                           "pipeline_model_parallel_size",
                                           "pipeline_model_parallel_layout",
                                           "context_parallel_size",
                                           "cp_comm_type",
                                           "expert_model_parallel_size",
                                           "expert_tensor_parallel_size",
                                           "recompute_granularity",
                                           "recompute_method",
                                           "recompute_num_layers",
                                           "make_vocab_size_divisible_by",
                                           "attention_dropout",
                                           "hidden_dropout"};

constexpr Rule kRules[] = {
    {"norm_epsilon", "model", "layernorm_epsilon", nullptr},
    {"use_rope_scaling", "model", "rope_scaling", "true"},
    {"swiglu", "model", "gated_linear_unit", "true"},
    {"swiglu", "model", "activation_func", "{_target_: torch.nn.functional.silu, _call_: false}"},
    {"disable_bias_linear", "model", "add_bias_linear", "false"},
    {"add_qkv_bias", "model", "add_qkv_bias", "true"},
    {"untie_embeddings_and_output_weights", "model", "share_embeddings_and_output_weights",
     "false"},
    {"multi_latent_attention", "model", "multi_latent_attention", "true"},
    {"qk_layernorm", "model", "qk_layernorm", "true"},
    {"moe_shared_expert_gate", "model", "moe_shared_expert_gate", "true"},
    {"moe_router_pre_softmax", "model", "moe_router_pre_softmax", "true"},
    {"moe_router_force_load_balancing", "model", "moe_router_force_load_balancing", "true"},
    {"num_experts", "model", "num_moe_experts", nullptr},
    {"moe_grouped_gemm", "model", "moe_grouped_gemm", "true"},
    {"moe_permute_fusion", "model", "moe_permute_fusion", "true"},
    {"sequence_parallel", "model", "sequence_parallel", "true"},
    {"decoder_first_pipeline_num_layers", "model", "num_layers_in_first_pipeline_stage", nullptr},
    {"decoder_last_pipeline_num_layers", "model", "num_layers_in_last_pipeline_stage", nullptr},
    {"seq_length", "model", "seq_length", nullptr},
    {"seq_length", "dataset", "sequence_length", nullptr},
    {"micro_batch_size", "train", "micro_batch_size", nullptr},
    {"global_batch_size", "train", "global_batch_size", nullptr},
    {"train_iters", "train", "train_iters", nullptr},
    {"train_samples", "train", "train_samples", nullptr},
    {"optimizer", "optimizer", "optimizer", nullptr},
    {"lr", "optimizer", "lr", nullptr},
    {"min_lr", "optimizer", "min_lr", nullptr},
    {"adam_beta1", "optimizer", "adam_beta1", nullptr},
    {"adam_beta2", "optimizer", "adam_beta2", nullptr},
    {"adam_eps", "optimizer", "adam_eps", nullptr},
    {"weight_decay", "optimizer", "weight_decay", nullptr},
    {"weight_decay", "scheduler", "start_weight_decay", nullptr},
    {"weight_decay", "scheduler", "end_weight_decay", nullptr},
    {"start_weight_decay", "optimizer", "weight_decay", nullptr},
    {"start_weight_decay", "scheduler", "start_weight_decay", nullptr},
    {"end_weight_decay", "scheduler", "end_weight_decay", nullptr},
    {"weight_decay_incr_style", "scheduler", "weight_decay_incr_style", nullptr},
    {"clip_grad", "optimizer", "clip_grad", nullptr},
    {"use_distributed_optimizer", "optimizer", "use_distributed_optimizer", "true"},
    {"optimizer_cpu_offload", "optimizer", "optimizer_cpu_offload", "true"},
    {"optimizer_cpu_offload", "optimizer", "optimizer_offload_fraction", "1.0"},
    {"use_precision_aware_optimizer", "optimizer", "use_precision_aware_optimizer", "true"},
    {"lr_warmup_iters", "scheduler", "lr_warmup_iters", nullptr},
    {"lr_decay_iters", "scheduler", "lr_decay_iters", nullptr},
    {"lr_decay_style", "scheduler", "lr_decay_style", nullptr},
    {"lr_warmup_init", "scheduler", "lr_warmup_init", nullptr},
    {"lr_warmup_samples", "scheduler", "lr_warmup_samples", nullptr},
    {"lr_decay_samples", "scheduler", "lr_decay_samples", nullptr},
    {"lr_wsd_decay_iters", "scheduler", "lr_wsd_decay_iters", nullptr},
    {"lr_wsd_decay_samples", "scheduler", "lr_wsd_decay_samples", nullptr},
    {"lr_wsd_decay_style", "scheduler", "lr_wsd_decay_style", nullptr},
    {"use_distributed_optimizer", "ddp", "use_distributed_optimizer", "true"},
    {"overlap_grad_reduce", "ddp", "overlap_grad_reduce", "true"},
    {"overlap_param_gather", "ddp", "overlap_param_gather", "true"},
    {"ddp_bucket_size", "ddp", "bucket_size", nullptr},
    {"accumulate_allreduce_grads_in_fp32", "ddp", "grad_reduce_in_fp32", "true"},
    {"grad_reduce_in_bf16", "ddp", "grad_reduce_in_fp32", "false"},
    {"use_megatron_fsdp", "ddp", "use_megatron_fsdp", "true"},
    {"data_parallel_sharding_strategy", "ddp", "data_parallel_sharding_strategy", nullptr},
    {"num_distributed_optimizer_instances", "ddp", "num_distributed_optimizer_instances", nullptr},
    {"use_megatron_fsdp", "dist", "use_megatron_fsdp", "true"},
    {"use_tp_pp_dp_mapping", "dist", "use_tp_pp_dp_mapping", "true"},
    {"ckpt_format", "checkpoint", "ckpt_format", nullptr},
    {"fp16", "mixed_precision", "fp16", "true"},
    {"bf16", "mixed_precision", "bf16", "true"},
    {"fp4_format", "mixed_precision", "fp4", nullptr},
    {"fp4_recipe", "mixed_precision", "fp4_recipe", nullptr},
    {"fp8_format", "mixed_precision", "fp8", nullptr},
    {"fp8_recipe", "mixed_precision", "fp8_recipe", nullptr},
    {"accumulate_allreduce_grads_in_fp32", "mixed_precision", "grad_reduce_in_fp32", "true"},
    {"grad_reduce_in_bf16", "mixed_precision", "grad_reduce_in_fp32", "false"},
    {"tp_comm_overlap", "comm_overlap", "tp_comm_overlap", "true"},
    {"no_overlap_p2p_communication", "comm_overlap", "overlap_p2p_comm", "false"},
    {"overlap_grad_reduce", "comm_overlap", "overlap_grad_reduce", "true"},
    {"overlap_param_gather", "comm_overlap", "overlap_param_gather", "true"},
    {"seed", "rng", "seed", nullptr},
    {"group_query_attention", nullptr, nullptr, nullptr},
    {"max_position_embeddings", nullptr, nullptr, nullptr},  // seq_length's
    // Written by AddFields.
    {"num_layers_per_virtual_pipeline_stage", nullptr, nullptr, nullptr},
    {"window_size", nullptr, nullptr, nullptr},
    {"moe_layer_freq", nullptr, nullptr, nullptr},
    {"rampup_batch_size", nullptr, nullptr, nullptr},
    {"attention_backend", nullptr, nullptr, nullptr},
};

class Sections {
 public:
  void Set(const std::string& section, const std::string& key, const std::string& value) {
    auto found = std::find_if(sections_.begin(), sections_.end(),
                              [&](const Section& candidate) { return candidate.name == section; });
    if (found == sections_.end()) found = sections_.insert(sections_.end(), {section, {}});
    for (auto& [known, old_value] : found->fields) {
      if (known == key) {
        old_value = value;
        return;
      }
    }
    found->fields.emplace_back(key, value);
  }
  std::string Text() const {
    std::string text;
    for (const Section& section : sections_) {
      text += Concat("\n", section.name, ":\n");
      for (const auto& [key, value] : section.fields) text += Concat("  ", key, ": ", value, "\n");
    }
    return text;
  }

 private:
  struct Section {
    std::string name;
    std::vector<std::pair<std::string, std::string>> fields;
  };
  std::vector<Section> sections_;
};

// YAML 1.1 takes "1e-05" for a word, and "|" or "*" for more than text.
std::string YamlValue(const std::string& value) {
  if (value.find_first_of("|*[](){}:#") != std::string::npos) return '"' + value + '"';
  const std::size_t exponent = value.find('e');
  const bool is_number = std::isdigit(static_cast<unsigned char>(value.front())) != 0;
  if (!is_number || exponent == std::string::npos || value.find('.') != std::string::npos) {
    return value;
  }
  return value.substr(0, exponent) + ".0" + value.substr(exponent);
}

void SetArgument(const spec::MegatronArgument& argument, Sections& sections) {
  bool is_known = false;
  for (const char* name : kModelArguments) {
    if (argument.name != name) continue;
    is_known = true;
    sections.Set("model", name, YamlValue(argument.value));
  }
  for (const Rule& rule : kRules) {
    if (argument.name != rule.argument) continue;
    is_known = true;
    if (rule.section == nullptr) continue;
    sections.Set(rule.section, rule.key,
                 rule.value != nullptr ? rule.value : YamlValue(argument.value));
  }
  TESSERA_CHECK(is_known, "no field of a recipe for the argument ", argument.name);
}

// Fields that a recipe may have set, or that its classes demand, whatever the arguments.
void AddDefaults(const spec::Plan& plan, Sections& sections) {
  const spec::ParallelSpec& parallel = plan.parallel;
  for (const char* flag : {"gated_linear_unit", "add_qkv_bias", "sequence_parallel"}) {
    sections.Set("model", flag, "false");
  }
  sections.Set("model", "add_bias_linear", "true");
  sections.Set("model", "share_embeddings_and_output_weights", "true");
  sections.Set("model", "num_query_groups", std::to_string(plan.model.num_key_value_heads));
  sections.Set("model", "context_parallel_size", "1");
  sections.Set(
      "model", "virtual_pipeline_model_parallel_size",
      parallel.virtual_pipeline_size > 1 ? std::to_string(parallel.virtual_pipeline_size) : "null");
  sections.Set("model", "recompute_granularity", "null");
  if (plan.model.moe) sections.Set("model", "expert_model_parallel_size", "1");
  for (const char* section : {"ddp", "optimizer"}) {
    sections.Set(section, "use_distributed_optimizer", "false");
  }
  sections.Set("ddp", "overlap_grad_reduce", "false");
  sections.Set("ddp", "overlap_param_gather", "false");
  sections.Set("mixed_precision", "_target_",
               "megatron.bridge.training.mixed_precision.MixedPrecisionConfig");
  sections.Set("comm_overlap", "_target_",
               "megatron.bridge.training.comm_overlap.CommOverlapConfig");
  sections.Set("comm_overlap", "tp_comm_overlap", "false");
}

void AddFields(const spec::Plan& plan, Sections& sections) {
  if (const auto& window = plan.model.sliding_window) {
    sections.Set("model", "window_size", Concat("[", window->size - 1, ", 0]"));
  }
  if (plan.model.moe && plan.model.moe->num_leading_dense_layers > 0) {
    std::string layers;
    for (int layer = 0; layer < plan.model.num_layers; ++layer) {
      layers += layer > 0 ? ", " : "";
      layers += layer < plan.model.moe->num_leading_dense_layers ? "0" : "1";
    }
    sections.Set("model", "moe_layer_freq", "[" + layers + "]");
  }
  if (const auto& ramp = plan.training.batch_ramp) {
    sections.Set(
        "train", "rampup_batch_size",
        Concat("[", ramp->start_batch_size, ", ", ramp->increment, ", ", ramp->samples, "]"));
  }
  using spec::Precision;
  const Precision precision = plan.training.precision;
  if (precision == Precision::kFp32) {
    sections.Set("mixed_precision", "fp32", "true");
    return;
  }
  const char* type = precision == Precision::kFp16 ? "torch.float16" : "torch.bfloat16";
  for (const char* key : {"params_dtype", "pipeline_dtype"}) {
    sections.Set("mixed_precision", key, Concat("{_target_: ", type, ", _call_: false}"));
  }
}

}  // namespace

Emission EmitNemo(const spec::Plan& plan, const spec::RuntimeSpec& runtime) {
  const spec::MegatronCommand command = MegatronCommandOf(plan, runtime);
  Emission emission;
  emission.warnings = command.warnings;
  emission.violations = command.violations;
  if (plan.parallel.attention == spec::AttentionKind::kUnfused) {
    emission.warnings.push_back(
        "The recipe's attention backend stays: set NVTE_FLASH_ATTN=0 and NVTE_FUSED_ATTN=0 for the "
        "unfused attention of the plan.");
  }
  Sections sections;
  AddDefaults(plan, sections);
  for (const spec::MegatronArgument& argument : command.arguments) {
    SetArgument(argument, sections);
  }
  AddFields(plan, sections);
  std::string& text = emission.text;
  text = HeaderText(plan,
                    "Overrides for a pretraining recipe of NeMo's Megatron-Bridge: merged into its "
                    "ConfigContainer (--config-file of the recipe's script). Take the recipe of "
                    "this model's family; data, tokenizer and checkpoints stay the recipe's.");
  text += CommentLines(
      Concat("Number of devices: ", plan.num_devices, "; the data-parallel size follows from it."));
  if (const auto hints = EnvironmentOf(plan, EmitTarget::kNemo); !hints.empty()) {
    text += "#\n# Environment:\n" + EnvironmentText(hints, "#   ");
  }
  text += WarningsText(emission.warnings) + sections.Text();
  return emission;
}

}  // namespace tessera::planner
