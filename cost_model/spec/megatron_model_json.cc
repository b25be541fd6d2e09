#include "cost_model/spec/megatron_model_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cost_model/base/check.h"
#include "cost_model/spec/megatron_expert_layers_json.h"

namespace tessera::spec {
namespace {

using base::Concat;
using Names = MegatronFields::Names;
using Show = MegatronFields::Show;

void VisitLatentAttention(MegatronFields& fields, ModelSpec& model) {
  bool is_latent = model.mla.has_value();
  fields.Flag(kModelField, is_latent, {"multi_latent_attention"});
  if (!is_latent) {
    fields.Flag(kModelField, model.qk_norm, {"qk_layernorm"});
    return;
  }
  if (!model.mla) model.mla.emplace();
  MlaSpec& mla = *model.mla;
  if (mla.q_lora_rank > 0 || fields.is_reading()) {
    fields.Integer(kModelField, mla.q_lora_rank, {"q_lora_rank"}, 0, kCountRange);
  }
  fields.Integer(kModelField, mla.kv_lora_rank, {"kv_lora_rank"}, 32, kSizeRange, Show::kAlways);
  fields.Integer(kModelField, mla.qk_nope_head_dim, {"qk_head_dim"}, 128, kSizeRange,
                 Show::kAlways);
  fields.Integer(kModelField, mla.qk_rope_head_dim, {"qk_pos_emb_head_dim"}, 64, kSizeRange,
                 Show::kAlways);
  fields.Integer(kModelField, mla.v_head_dim, {"v_head_dim"}, 128, kSizeRange, Show::kAlways);
  if (fields.is_reading()) {
    // The norms of the latent vectors are part of the form; YaRN changes angles alone.
    fields.arguments().Skip({"qk_layernorm", "rotary_scaling_factor", "rope_type", "mscale",
                             "mscale_all_dim", "kv_channels"});
    model.head_dim = mla.qk_nope_head_dim + mla.qk_rope_head_dim;
    return;
  }
  fields.Write("qk_layernorm");
  fields.Write("rope_type", "rope");  // its default under latent attention is YaRN
}

void VisitHeads(MegatronFields& fields, ModelSpec& model) {
  fields.Required(model.num_attention_heads, "num_attention_heads");
  const int heads = model.num_attention_heads;
  if (fields.is_reading()) {
    const std::optional<int64_t> groups = fields.arguments().Integer({"num_query_groups"});
    const std::optional<bool> grouped = fields.arguments().Flag({"group_query_attention"});
    const bool is_grouped = grouped.value_or(groups.has_value());
    model.num_key_value_heads = is_grouped ? static_cast<int>(groups.value_or(1)) : heads;
  } else if (model.num_key_value_heads != heads) {
    fields.Write("group_query_attention");
    fields.Write("num_query_groups", model.num_key_value_heads);
  }
  VisitLatentAttention(fields, model);
  if (!model.mla) {
    fields.Integer(kModelField, model.head_dim, {"kv_channels"}, model.hidden_size / heads,
                   kSizeRange, Show::kAlways);
  } else if (!fields.is_reading()) {
    fields.Write("kv_channels", model.mla->v_head_dim);
  }
}

void VisitMlp(MegatronFields& fields, ModelSpec& model) {
  bool is_gated = model.activation == ActivationKind::kSwiGlu;
  fields.Flag(kModelField, is_gated, {"swiglu"});
  if (fields.is_reading()) {
    model.activation = is_gated ? ActivationKind::kSwiGlu : ActivationKind::kGelu;
  }
  // With a gate, two thirds of the width in multiples of 64: about as many parameters as without.
  const int64_t width = is_gated ? 4 * model.hidden_size * 2 / 3 / 64 * 64 : 4 * model.hidden_size;
  fields.Integer(kModelField, model.ffn_hidden_size, {"ffn_hidden_size"}, width, kSizeRange,
                 Show::kAlways);
}

void VisitVocabularyAndPositions(MegatronFields& fields, ModelSpec& model,
                                 const TrainingSpec& training) {
  if (!fields.is_reading()) {
    fields.Write("vocab_size", model.vocab_size);
    // Megatron-LM refuses sequences that are longer, whatever the kind of positions.
    fields.Write("max_position_embeddings",
                 std::max(model.max_sequence_length, training.sequence_length));
    if (training.sequence_length > model.max_sequence_length) {
      fields.Warn(Concat("--max-position-embeddings is raised from the model's ",
                         model.max_sequence_length, " to the sequence length ",
                         training.sequence_length, "."));
    }
    return;
  }
  constexpr int64_t kGpt2VocabSize = 50257;
  MegatronArguments& arguments = fields.arguments();
  const std::optional<int64_t> size = arguments.Integer({"vocab_size"});
  const std::optional<int64_t> padded_size = arguments.Integer({"padded_vocab_size"});
  model.vocab_size = size.value_or(padded_size.value_or(kGpt2VocabSize));
  model.max_sequence_length =
      arguments.Integer({"max_position_embeddings"}).value_or(training.sequence_length);
}

// Llama 3.1's frequencies, which Megatron-LM fixes but for the factor.
void VisitRopeScaling(MegatronFields& fields, ModelSpec& model) {
  bool is_scaled = model.rope_scaling.has_value();
  fields.Flag(kModelField, is_scaled, {"use_rope_scaling"});
  Names factor_names = {"rope_scaling_factor", "rotary_scaling_factor"};
  if (model.mla) factor_names.pop_back();  // it is YaRN's there
  double factor = is_scaled && model.rope_scaling ? model.rope_scaling->factor : 8;
  if (is_scaled || fields.is_reading()) {
    fields.Number(kModelField, factor, factor_names, 8, kPositive, Show::kAlways);
  }
  if (!is_scaled) return;
  const RopeScaling standard = {.factor = factor};
  if (fields.is_reading()) {
    model.rope_scaling = standard;
  } else if (*model.rope_scaling != standard) {
    fields.Warn(Concat("Megatron-LM stretches rotary frequencies with low and high factors ",
                       standard.low_freq_factor, " and ", standard.high_freq_factor, " from ",
                       standard.original_max_sequence_length, " positions; the model has others."));
  }
}

void VisitPositions(MegatronFields& fields, ModelSpec& model) {
  bool is_rotary = false;
  if (fields.is_reading()) {
    fields.Flag(kModelField, is_rotary, {"use_rotary_position_embeddings"});
  }
  fields.Choice<PositionKind>(kModelField, model.position, {"position_embedding_type"},
                              {{"learned_absolute", PositionKind::kLearned},
                               {"rope", PositionKind::kRope},
                               {"none", PositionKind::kNone}},
                              is_rotary ? PositionKind::kRope : PositionKind::kLearned);
  if (fields.is_reading()) {
    fields.arguments().Only("rotary_percent", 1.0, "rotary positions over the whole head");
    fields.arguments().Only("rotary_interleaved", false, "halves of a head turned together");
    if (!model.mla) fields.arguments().Only("rope_type", "rope", "plain rotary positions");
  } else if (model.position != PositionKind::kRope) {
    return;
  }
  fields.Number(kModelField, model.rope_theta, {"rotary_base"}, 10000, kPositive, Show::kAlways);
  VisitRopeScaling(fields, model);
}

void WriteBiases(MegatronFields& fields, const ModelSpec& model) {
  const bool attention = model.attention_output_bias;
  if (attention == model.mlp_bias && (model.qkv_bias || !attention)) {
    if (!attention) fields.Write("disable_bias_linear");
    if (!attention && model.qkv_bias) fields.Write("add_qkv_bias");
    return;
  }
  fields.Refuse("biases",
                "Megatron-LM has biases in all linear layers, in the query-key-value projection "
                "alone, or in none; the model has another choice");
}

void VisitBiasesAndTying(MegatronFields& fields, ModelSpec& model) {
  if (fields.is_reading()) {
    MegatronArguments& arguments = fields.arguments();
    const std::optional<bool> added = arguments.Flag({"add_bias_linear"});
    const bool disabled = arguments.FlagOr({"disable_bias_linear"}, false);
    const bool bias = added.value_or(!disabled) && !disabled;
    model.attention_output_bias = model.mlp_bias = bias;
    model.qkv_bias = arguments.FlagOr({"add_qkv_bias"}, false) || bias;
    const std::optional<bool> shared = arguments.Flag({"share_embeddings_and_output_weights"});
    bool untied = false;
    fields.Flag(kModelField, untied, {"untie_embeddings_and_output_weights"});
    model.tied_embeddings = shared.value_or(!untied);
  } else {
    WriteBiases(fields, model);
    bool untied = !model.tied_embeddings;
    fields.Flag(kModelField, untied, {"untie_embeddings_and_output_weights"});
  }
  fields.Number(kModelField, model.init_standard_deviation, {"init_method_std"}, 0.02, kPositive,
                Show::kAlways);
}

// Router weights, losses and forced routing. Megatron-LM's softmax over the chosen experts is ours
// over all of them, normalised; its loss over a whole micro-batch is read as that over a sequence.
void VisitRouting(MegatronFields& fields, MoeSpec& moe) {
  bool is_before_choice = !moe.normalized_router_weights;
  fields.Flag(kModelField, is_before_choice, {"moe_router_pre_softmax"});
  moe.normalized_router_weights = !is_before_choice;
  bool has_balance_loss = true;
  if (fields.is_reading()) {
    fields.Choice<bool>(kModelField, has_balance_loss, {"moe_router_load_balancing_type"},
                        {{"seq_aux_loss", true}, {"aux_loss", true}, {"none", false}}, true);
  } else if (moe.auxiliary_loss_coefficient > 0) {
    fields.Write("moe_router_load_balancing_type", "seq_aux_loss");
  }
  fields.Number(kModelField, moe.auxiliary_loss_coefficient, {"moe_aux_loss_coeff"}, 0,
                kNotNegative);
  if (!has_balance_loss) moe.auxiliary_loss_coefficient = 0;
  fields.Number(kModelField, moe.z_loss_coefficient, {"moe_z_loss_coeff"}, 0, kNotNegative);
  fields.Flag(kModelField, moe.forced_uniform_routing, {"moe_router_force_load_balancing"});
}

void VisitExperts(MegatronFields& fields, ModelSpec& model) {
  MoeSpec moe = model.moe.value_or(MoeSpec{.experts_per_token = 2});
  fields.Section("Experts");
  fields.Integer(kModelField, moe.num_experts, {"num_experts", "num_moe_experts"}, 0, kCountRange);
  const bool has_experts = moe.num_experts > 0;
  if (!has_experts && !fields.is_reading()) return;
  fields.Integer(kModelField, moe.experts_per_token, {"moe_router_topk"}, 2, kSizeRange,
                 Show::kAlways);
  fields.Integer(kModelField, moe.expert_ffn_hidden_size, {"moe_ffn_hidden_size"},
                 model.ffn_hidden_size, kSizeRange, Show::kAlways);
  fields.Integer(kModelField, moe.shared_expert_ffn_hidden_size,
                 {"moe_shared_expert_intermediate_size"}, 0, kCountRange);
  fields.Flag(kModelField, moe.shared_expert_gate, {"moe_shared_expert_gate"});
  fields.Number(kModelField, moe.capacity_factor, {"moe_expert_capacity_factor"}, 0, kNotNegative);
  VisitRouting(fields, moe);
  VisitMegatronExpertLayers(fields, model.num_layers, moe.num_leading_dense_layers);
  if (has_experts) model.moe = moe;
  if (fields.is_reading()) return;
  // What prices assume: tokens travel all to all, experts of a rank are one grouped product.
  fields.Write("moe_token_dispatcher_type", "alltoall");
  fields.Write("moe_grouped_gemm");
  fields.Write("moe_permute_fusion");
}

// A window of n tokens, the token's own among them, reaches n - 1 back.
void VisitSlidingWindow(MegatronFields& fields, ModelSpec& model) {
  const Names names = {"window_size"};
  if (!fields.is_reading()) {
    if (!model.sliding_window) return;
    fields.Write("window_size", Concat(model.sliding_window->size - 1, ",0"));
    if (const int interval = model.sliding_window->full_attention_interval; interval > 0) {
      fields.Write("window_attn_skip_freq", interval);
    }
    return;
  }
  MegatronArguments& arguments = fields.arguments();
  const std::optional<std::vector<int64_t>> window = arguments.Integers(names);
  const std::optional<int64_t> interval = arguments.Integer({"window_attn_skip_freq"});
  if (!window) return;
  if (window->size() != 2 || window->front() < 0 || window->front() >= kSizeRange.maximum ||
      window->back() != 0) {
    arguments.Fail(names, "another window", "two numbers: tokens before, and 0 tokens after");
  }
  model.sliding_window =
      SlidingWindowSpec{.size = window->front() + 1,
                        .full_attention_interval = static_cast<int>(interval.value_or(0))};
}

}  // namespace

void VisitMegatronModel(MegatronFields& fields, ModelSpec& model, const TrainingSpec& training) {
  fields.Section("Model");
  fields.Required(model.num_layers, "num_layers");
  fields.Required(model.hidden_size, "hidden_size");
  VisitHeads(fields, model);
  VisitMlp(fields, model);
  VisitVocabularyAndPositions(fields, model, training);
  fields.Choice<NormKind>(kModelField, model.norm, {"normalization"},
                          {{"LayerNorm", NormKind::kLayerNorm}, {"RMSNorm", NormKind::kRmsNorm}},
                          NormKind::kLayerNorm);
  fields.Number(kModelField, model.norm_epsilon, {"norm_epsilon", "layernorm_epsilon"}, 1e-5,
                kPositive, Show::kAlways);
  VisitPositions(fields, model);
  VisitBiasesAndTying(fields, model);
  VisitSlidingWindow(fields, model);
  fields.Integer(kModelField, model.num_multi_token_layers, {"mtp_num_layers"}, 0, kCountRange);
  VisitExperts(fields, model);
}

}  // namespace tessera::spec
