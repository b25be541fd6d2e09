#include "cost_model/spec/huggingface_forms_json.h"

#include "cost_model/base/error.h"

namespace tessera::spec {
namespace {

using base::Concat;
using nlohmann::json;

// A list of layers that keep an MLP: those that lead, or none.
int LeadingLayers(HuggingFaceConfig& config, const std::string& key) {
  const json* layers = config.Optional(key);
  if (layers == nullptr) return 0;
  int count = 0;
  for (const json& layer : *layers) {
    if (layer != count) config.Fail(key, layers->dump(), "the first layers of the model");
    ++count;
  }
  return count;
}

// Every how many layers the last attends to all tokens.
int FullAttentionInterval(HuggingFaceConfig& config) {
  constexpr int kDefault = 2;  // windowed and full by turns
  const std::string key = "layer_types";
  const json* types = config.Optional(key);
  if (types == nullptr || types->empty()) return kDefault;
  int interval = 0;  // no full layer so far
  for (size_t i = 0; i < types->size(); ++i) {
    const bool is_full = (*types)[i] == "full_attention";
    if (is_full && interval == 0) interval = static_cast<int>(i) + 1;
    const bool expected = interval > 0 && (static_cast<int>(i) + 1) % interval == 0;
    if (is_full != expected) {
      config.Fail(key, Concat((*types)[i].dump(), " in layer ", i),
                  "full attention in every so many layers");
    }
  }
  return interval;
}

}  // namespace

void ReadAuxiliaryLoss(HuggingFaceConfig& config, double standard, MoeSpec& moe) {
  const bool is_added = config.FlagOr("output_router_logits", false);
  const json* coefficient = config.Optional("router_aux_loss_coef");
  if (!is_added || (coefficient != nullptr && *coefficient == 0)) return;
  moe.auxiliary_loss_coefficient = config.NumberOr("router_aux_loss_coef", standard);
}

void ReadQwenExperts(HuggingFaceConfig& config, ModelSpec& model) {
  MoeSpec& moe = model.moe.emplace();
  moe.num_experts = config.Count("num_experts");
  moe.experts_per_token = config.Count("num_experts_per_tok");
  moe.expert_ffn_hidden_size = config.Size("moe_intermediate_size");
  moe.shared_expert_ffn_hidden_size = config.SizeOr("shared_expert_intermediate_size", 0);
  moe.shared_expert_gate = moe.shared_expert_ffn_hidden_size > 0;
  moe.num_leading_dense_layers = LeadingLayers(config, "mlp_only_layers");
  moe.normalized_router_weights = config.FlagOr("norm_topk_prob", false);
  ReadAuxiliaryLoss(config, /*standard=*/0.001, moe);
  config.Only("decoder_sparse_step", 1, "1 (experts in every layer)");
}

void ReadDeepSeekForms(HuggingFaceConfig& config, ModelSpec& model) {
  MlaSpec& mla = model.mla.emplace();
  mla.q_lora_rank = config.SizeOr("q_lora_rank", 0);
  mla.kv_lora_rank = config.Size("kv_lora_rank");
  mla.qk_nope_head_dim = config.Size("qk_nope_head_dim");
  mla.qk_rope_head_dim = config.Size("qk_rope_head_dim");
  mla.v_head_dim = config.Size("v_head_dim");
  model.head_dim = mla.qk_nope_head_dim + mla.qk_rope_head_dim;
  if (const json* modules = config.Optional("num_nextn_predict_layers"); modules && *modules != 0) {
    model.num_multi_token_layers = config.Count("num_nextn_predict_layers");
  }
  if (config.Optional("n_routed_experts") == nullptr) return;
  MoeSpec& moe = model.moe.emplace();
  moe.num_experts = config.Count("n_routed_experts");
  moe.experts_per_token = config.Count("num_experts_per_tok");
  moe.expert_ffn_hidden_size = config.Size("moe_intermediate_size");
  moe.normalized_router_weights = config.FlagOr("norm_topk_prob", true);
  const json* shared = config.Optional("n_shared_experts");
  if (shared != nullptr && *shared != 0) {
    moe.shared_expert_ffn_hidden_size =
        config.Count("n_shared_experts") * moe.expert_ffn_hidden_size;
  }
  const json* leading = config.Optional("first_k_dense_replace");
  if (leading != nullptr && *leading != 0) {
    moe.num_leading_dense_layers = config.Count("first_k_dense_replace");
  }
  config.Only("moe_layer_freq", 1, "1 (experts in every layer past the leading ones)");
}

void ReadGptOssForms(HuggingFaceConfig& config, ModelSpec& model) {
  MoeSpec& moe = model.moe.emplace();
  moe.num_experts = config.Count("num_local_experts");
  moe.experts_per_token = config.Count("num_experts_per_tok");
  moe.expert_ffn_hidden_size = model.ffn_hidden_size;
  model.sliding_window =
      SlidingWindowSpec{.size = config.Size("sliding_window"),
                        .full_attention_interval = FullAttentionInterval(config)};
}

}  // namespace tessera::spec
