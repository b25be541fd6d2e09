#include <nlohmann/json.hpp>

#include "cost_model/base/error.h"
#include "cost_model/spec/spec_json.h"

namespace tessera::spec {
namespace {

using base::Concat;
using base::ConfigError;
using nlohmann::ordered_json;

constexpr const char* kWhere = "Hugging Face config";

void Require(bool holds, const std::string& key, const std::string& found,
             const std::string& expected) {
  if (!holds) throw ConfigError(kWhere, key, found, expected);
}

std::string YesNo(bool value) { return value ? "true" : "false"; }

ordered_json Gpt2Config(const ModelSpec& model) {
  const std::string family = " (as every gpt2 model)";
  Require(model.position == PositionKind::kLearned, "position",
          std::string(ToString(model.position)), "learned" + family);
  Require(model.activation == ActivationKind::kGelu, "activation",
          std::string(ToString(model.activation)), "gelu" + family);
  Require(!model.moe, "moe", "experts", "none" + family);
  Require(model.qkv_bias && model.attention_output_bias && model.mlp_bias,
          "qkv_bias, attention_output_bias, mlp_bias",
          Concat(YesNo(model.qkv_bias), ", ", YesNo(model.attention_output_bias), ", ",
                 YesNo(model.mlp_bias)),
          "true, true, true" + family);
  Require(model.num_key_value_heads == model.num_attention_heads, "num_key_value_heads",
          Concat(model.num_key_value_heads), Concat(model.num_attention_heads, family));
  Require(model.head_dim * model.num_attention_heads == model.hidden_size, "head_dim",
          Concat(model.head_dim),
          Concat(model.hidden_size, " / ", model.num_attention_heads, family));
  return {{"architectures", ordered_json::array({"GPT2LMHeadModel"})},
          {"model_type", "gpt2"},
          {"vocab_size", model.vocab_size},
          {"n_positions", model.max_sequence_length},
          {"n_embd", model.hidden_size},
          {"n_layer", model.num_layers},
          {"n_head", model.num_attention_heads},
          {"n_inner", model.ffn_hidden_size},
          {"activation_function", "gelu_new"},
          {"layer_norm_epsilon", model.norm_epsilon},
          {"initializer_range", model.init_standard_deviation},
          {"resid_pdrop", 0.0},
          {"embd_pdrop", 0.0},
          {"attn_pdrop", 0.0},
          {"tie_word_embeddings", model.tied_embeddings}};
}

struct Family {
  const char* model_type;
  const char* architecture;
};

// The z-loss, which no config has, is of training alone.
Family ExpertFamilyOf(const ModelSpec& model) {
  const MoeSpec& moe = *model.moe;
  const bool is_mixtral = IsMixtral(model);
  const std::string family =
      is_mixtral ? " (as every mixtral model)" : " (as every qwen2_moe model)";
  Require(moe.capacity_factor == 0 && !moe.forced_uniform_routing, "moe",
          "a capacity or forced routing", "neither");
  Require(!model.attention_output_bias && !model.mlp_bias, "attention_output_bias, mlp_bias",
          Concat(YesNo(model.attention_output_bias), ", ", YesNo(model.mlp_bias)),
          "false, false" + family);
  Require(model.qkv_bias != is_mixtral, "qkv_bias", YesNo(model.qkv_bias),
          YesNo(!is_mixtral) + family);
  if (is_mixtral) {
    Require(moe.expert_ffn_hidden_size == model.ffn_hidden_size, "ffn_hidden_size",
            Concat(model.ffn_hidden_size), Concat("the experts' ", moe.expert_ffn_hidden_size));
    return {"mixtral", "MixtralForCausalLM"};
  }
  Require(moe.shared_expert_gate, "moe.shared_expert_gate", "false", "true" + family);
  return {"qwen2_moe", "Qwen2MoeForCausalLM"};
}

// By what tells them apart: experts, and the biases of q, k and v without one of the output.
Family RotaryFamilyOf(const ModelSpec& model) {
  Require(
      !model.mla && !model.sliding_window && !model.qk_norm && model.num_multi_token_layers == 0,
      "mla, sliding_window, qk_norm, num_multi_token_layers", "one of them",
      "none (config files of such models can be read, not written)");
  if (model.moe) return ExpertFamilyOf(model);
  if (model.qkv_bias && !model.attention_output_bias) {
    Require(!model.mlp_bias, "mlp_bias", "true", "false (as every qwen2 model)");
    return {"qwen2", "Qwen2ForCausalLM"};
  }
  Require(model.qkv_bias == model.attention_output_bias, "attention_output_bias",
          YesNo(model.attention_output_bias), YesNo(model.qkv_bias) + " (the same as qkv_bias)");
  return {"llama", "LlamaForCausalLM"};
}

ordered_json RopeScalingConfig(const RopeScaling& scaling) {
  return {{"rope_type", "llama3"},
          {"factor", scaling.factor},
          {"low_freq_factor", scaling.low_freq_factor},
          {"high_freq_factor", scaling.high_freq_factor},
          {"original_max_position_embeddings", scaling.original_max_sequence_length}};
}

void AddQwenExperts(const MoeSpec& moe, ordered_json& config) {
  config["moe_intermediate_size"] = moe.expert_ffn_hidden_size;
  config["shared_expert_intermediate_size"] = moe.shared_expert_ffn_hidden_size;
  config["norm_topk_prob"] = moe.normalized_router_weights;
  config["decoder_sparse_step"] = 1;
  config["mlp_only_layers"] = ordered_json::array();
  for (int layer = 0; layer < moe.num_leading_dense_layers; ++layer) {
    config["mlp_only_layers"].push_back(layer);
  }
  config["use_sliding_window"] = false;
}

ordered_json RotaryConfig(const ModelSpec& model) {
  Require(model.position == PositionKind::kRope, "position", std::string(ToString(model.position)),
          "rope (as every model with rmsnorm)");
  Require(model.activation == ActivationKind::kSwiGlu, "activation",
          std::string(ToString(model.activation)), "swiglu (as every model with rmsnorm)");
  const Family family = RotaryFamilyOf(model);
  const bool is_llama = std::string(family.model_type) == "llama";
  const bool is_mixtral = IsMixtral(model);
  ordered_json config = {{"architectures", ordered_json::array({family.architecture})},
                         {"model_type", family.model_type},
                         {"vocab_size", model.vocab_size},
                         {"hidden_size", model.hidden_size},
                         {"intermediate_size", model.ffn_hidden_size},
                         {"num_hidden_layers", model.num_layers},
                         {"num_attention_heads", model.num_attention_heads},
                         {"num_key_value_heads", model.num_key_value_heads},
                         {"head_dim", model.head_dim},
                         {"max_position_embeddings", model.max_sequence_length},
                         {"hidden_act", "silu"},
                         {"rms_norm_eps", model.norm_epsilon},
                         {"rope_theta", model.rope_theta},
                         {"initializer_range", model.init_standard_deviation},
                         {"tie_word_embeddings", model.tied_embeddings}};
  if (model.rope_scaling) config["rope_scaling"] = RopeScalingConfig(*model.rope_scaling);
  if (is_llama) {
    config["attention_bias"] = model.qkv_bias;
    config["mlp_bias"] = model.mlp_bias;
  }
  if (model.moe) {
    config[is_mixtral ? "num_local_experts" : "num_experts"] = model.moe->num_experts;
    config["num_experts_per_tok"] = model.moe->experts_per_token;
    config["router_aux_loss_coef"] = model.moe->auxiliary_loss_coefficient;
    config["output_router_logits"] = model.moe->auxiliary_loss_coefficient > 0;
    config["sliding_window"] = nullptr;
    if (!is_mixtral) AddQwenExperts(*model.moe, config);
  }
  return config;
}

}  // namespace

bool IsMixtral(const ModelSpec& model) {
  return model.moe && model.moe->shared_expert_ffn_hidden_size == 0 &&
         model.moe->num_leading_dense_layers == 0 && model.moe->normalized_router_weights;
}

std::string WriteHuggingFaceConfig(const ModelSpec& model) {
  ordered_json config =
      model.norm == NormKind::kLayerNorm ? Gpt2Config(model) : RotaryConfig(model);
  config["torch_dtype"] = "float32";
  return config.dump(2) + "\n";
}

}  // namespace tessera::spec
