#include "planner/validation/measured_model.h"

#include <algorithm>
#include <charconv>

namespace tessera::planner {
namespace {

using spec::ModelSpec;

void FillMoe(const Measurement& measurement, ModelSpec& model) {
  const MeasuredModel& row = measurement.model;
  if (!row.num_experts) return;
  spec::MoeSpec& moe = model.moe.emplace();
  moe.num_experts = static_cast<int>(*row.num_experts);
  moe.experts_per_token = static_cast<int>(row.moe_top_k.value_or(1));
  moe.expert_ffn_hidden_size = row.moe_ffn_hidden_size.value_or(row.ffn_hidden_size);
  moe.shared_expert_ffn_hidden_size = row.moe_shared_ffn_hidden_size.value_or(0);
  const int64_t num_moe_layers = row.num_moe_layers.value_or(row.num_layers);
  moe.num_leading_dense_layers =
      static_cast<int>(std::max<int64_t>(0, row.num_layers - num_moe_layers));
  if (measurement.HasFlag("moe_token_drop") ||
      measurement.HasFlag("moe_capacity_factor_1_padded")) {
    moe.capacity_factor = 1;
  }
}

void FillMla(const MeasuredModel& row, ModelSpec& model) {
  if (!row.kv_lora_rank) return;
  spec::MlaSpec& mla = model.mla.emplace();
  mla.q_lora_rank = row.q_lora_rank.value_or(0);
  mla.kv_lora_rank = *row.kv_lora_rank;
  mla.qk_rope_head_dim = row.qk_rope_head_dim.value_or(0);
  mla.qk_nope_head_dim = row.qk_nope_head_dim.value_or(model.head_dim - mla.qk_rope_head_dim);
  mla.v_head_dim = row.v_head_dim.value_or(mla.qk_nope_head_dim);
  model.head_dim = mla.qk_nope_head_dim + mla.qk_rope_head_dim;
}

}  // namespace

std::optional<spec::SlidingWindowSpec> ParseSlidingWindow(const std::string& text) {
  const auto digit =
      std::find_if(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (digit == text.end()) return std::nullopt;
  const char* begin = text.data() + (digit - text.begin());
  spec::SlidingWindowSpec window;
  std::from_chars(begin, text.data() + text.size(), window.size);
  if (window.size < 1) return std::nullopt;
  if (text.find("alternat") != std::string::npos || text.find("other") != std::string::npos) {
    window.full_attention_interval = 2;
  }
  return window;
}

ModelSpec ModelOf(const Measurement& measurement) {
  const MeasuredModel& row = measurement.model;
  ModelSpec model;
  model.name = row.name;
  const bool is_gpt_like = !row.gated_mlp && row.position != "rope";
  model.norm = row.gated_mlp ? spec::NormKind::kRmsNorm : spec::NormKind::kLayerNorm;
  model.position = row.position == "rope"    ? spec::PositionKind::kRope
                   : row.position == "alibi" ? spec::PositionKind::kNone
                                             : spec::PositionKind::kLearned;
  model.activation = row.gated_mlp ? spec::ActivationKind::kSwiGlu : spec::ActivationKind::kGelu;
  model.qkv_bias = model.attention_output_bias = model.mlp_bias = is_gpt_like;
  model.num_layers = static_cast<int>(row.num_layers);
  model.hidden_size = row.hidden_size;
  model.num_attention_heads = static_cast<int>(row.num_attention_heads);
  model.num_key_value_heads =
      static_cast<int>(row.num_query_groups.value_or(row.num_attention_heads));
  model.head_dim = row.head_dim.value_or(row.hidden_size / row.num_attention_heads);
  model.ffn_hidden_size = row.ffn_hidden_size;
  model.vocab_size = row.vocab_size;
  model.max_sequence_length = row.sequence_length;
  model.tied_embeddings = row.tied_embeddings;
  FillMoe(measurement, model);
  FillMla(row, model);
  model.sliding_window = ParseSlidingWindow(row.sliding_window);
  model.num_multi_token_layers = static_cast<int>(row.num_multi_token_layers.value_or(0));
  return model;
}

}  // namespace tessera::planner
