#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "cost_model/base/error.h"
#include "cost_model/spec/huggingface_config_json.h"
#include "cost_model/spec/huggingface_forms_json.h"
#include "cost_model/spec/import_json.h"
#include "cost_model/spec/plan_json.h"

namespace tessera::spec {
namespace {

using base::Concat;
using base::ConfigError;
using nlohmann::json;

// What transformers assumes for keys that a config.json leaves out.
struct FamilyDefaults {
  const char* model_type;
  int num_key_value_heads;  // 0: as many as query heads
  double rms_norm_eps;
  double rope_theta;
};
constexpr FamilyDefaults kRotaryFamilies[] = {
    {"llama", 0, 1e-6, 1e4},     {"mistral", 8, 1e-6, 1e4},     {"qwen2", 32, 1e-6, 1e4},
    {"mixtral", 8, 1e-5, 1e6},   {"qwen3", 32, 1e-6, 1e4},      {"qwen2_moe", 16, 1e-6, 1e4},
    {"qwen3_moe", 4, 1e-6, 1e4}, {"deepseek_v2", 0, 1e-6, 1e4}, {"deepseek_v3", 0, 1e-6, 1e4},
    {"kimi_k2", 0, 1e-6, 1e4},   {"gpt_oss", 8, 1e-5, 150000}};

bool StartsWith(const std::string& text, const char* prefix) { return text.rfind(prefix, 0) == 0; }
bool HasLatentAttention(const std::string& model_type) {
  return StartsWith(model_type, "deepseek_") || model_type == "kimi_k2";
}

using Config = HuggingFaceConfig;

ModelSpec ReadGpt2(Config& config) {
  ModelSpec model;
  model.num_layers = config.Count("n_layer");
  model.hidden_size = config.Size("n_embd");
  model.num_attention_heads = model.num_key_value_heads = config.Count("n_head");
  if (model.hidden_size % model.num_attention_heads != 0) {
    config.Fail("n_embd", Concat(model.hidden_size),
                Concat("a multiple of the ", model.num_attention_heads, " heads"));
  }
  model.head_dim = model.hidden_size / model.num_attention_heads;
  model.ffn_hidden_size = config.SizeOr("n_inner", 4 * model.hidden_size);
  model.vocab_size = config.Size("vocab_size");
  model.max_sequence_length = config.Size("n_positions");
  model.qkv_bias = model.attention_output_bias = model.mlp_bias = true;
  model.tied_embeddings = config.FlagOr("tie_word_embeddings", true);
  model.norm_epsilon = config.NumberOr("layer_norm_epsilon", 1e-5);
  model.init_standard_deviation = config.NumberOr("initializer_range", 0.02);
  // All three are the tanh approximation.
  config.OnlyText("activation_function", {"gelu_new", "gelu_pytorch_tanh", "gelu_fast"});
  config.Only("scale_attn_weights", true, "true");
  config.Only("scale_attn_by_inverse_layer_idx", false, "false");
  config.Only("add_cross_attention", false, "false");
  return model;
}

// `parameters` holds the type and, from transformers 5 on, the base frequency too.
void ReadRopeParameters(const json& parameters, const std::string& key, Config& config,
                        ModelSpec& model) {
  const std::string pointer = "/" + key;
  FieldReader reader(parameters, config.file(), pointer);
  const std::string type_key = parameters.contains("rope_type") ? "rope_type" : "type";
  const std::vector<std::string> types = {"default", "llama3"};
  const bool is_llama3 = reader.Name(type_key, types, 0, Presence::kRequired) == 1;
  reader.Number("rope_theta", model.rope_theta, kPositive, Presence::kOptional);
  if (is_llama3) {
    RopeScaling& scaling = model.rope_scaling.emplace();
    reader.Number("factor", scaling.factor, kPositive);
    reader.Number("low_freq_factor", scaling.low_freq_factor, kPositive);
    reader.Number("high_freq_factor", scaling.high_freq_factor, kPositive);
    reader.Integer("original_max_position_embeddings", scaling.original_max_sequence_length,
                   kSizeRange);
  }
  reader.Take("type");  // some files name the type twice
  if (!is_llama3) return;
  reader.Finish();
}

void ReadRope(Config& config, const FamilyDefaults& defaults, ModelSpec& model) {
  model.position = PositionKind::kRope;
  model.rope_theta = config.NumberOr("rope_theta", defaults.rope_theta);
  // Their YaRN (Peng et al. 2023, arXiv:2309.00071) changes angles alone.
  const std::string model_type = defaults.model_type;
  if (HasLatentAttention(model_type) || model_type == "gpt_oss") return;
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (const json* parameters = config.Optional(key)) {
      ReadRopeParameters(*parameters, key, config, model);
    }
  }
  config.Only("partial_rotary_factor", 1.0, "1 (rotary positions over the whole head)");
}

// Attention over the last `sliding_window` tokens only differs from full attention when a sequence
// is longer than the window.
void RefuseSlidingWindow(Config& config, const std::string& model_type, int64_t max_length) {
  if (model_type == "llama" || model_type == "gpt_oss" || HasLatentAttention(model_type)) return;
  if (StartsWith(model_type, "qwen") && !config.FlagOr("use_sliding_window", false)) return;
  constexpr int64_t kMistralDefault = 4096;  // where the key is absent; null switches it off
  const bool defaulted = model_type == "mistral" && !config.Has("sliding_window");
  const int64_t window = defaulted ? kMistralDefault : config.SizeOr("sliding_window", max_length);
  if (window < max_length) {
    config.Fail(
        "sliding_window", Concat(window, defaulted ? " (the default)" : ""),
        Concat("null or at least max_position_embeddings ", max_length, " (full attention)"));
  }
}

void ReadBiases(Config& config, const std::string& model_type, ModelSpec& model) {
  if (model_type == "llama") {
    model.qkv_bias = model.attention_output_bias = config.FlagOr("attention_bias", false);
    model.mlp_bias = config.FlagOr("mlp_bias", false);
  } else if (model_type == "qwen2" || model_type == "qwen2_moe") {
    model.qkv_bias = true;
  } else if (model_type == "gpt_oss") {
    model.qkv_bias = model.attention_output_bias = config.FlagOr("attention_bias", true);
    model.mlp_bias = true;
  } else {
    config.Only("attention_bias", false, "false");
  }
}

ModelSpec ReadRotaryFamily(Config& config, const FamilyDefaults& defaults) {
  const std::string model_type = defaults.model_type;
  ModelSpec model;
  model.norm = NormKind::kRmsNorm;
  model.activation = ActivationKind::kSwiGlu;
  model.num_layers = config.Count("num_hidden_layers");
  model.hidden_size = config.Size("hidden_size");
  model.num_attention_heads = config.Count("num_attention_heads");
  const bool has_kv_heads = config.Optional("num_key_value_heads") != nullptr;
  model.num_key_value_heads = has_kv_heads ? config.Count("num_key_value_heads")
                              : defaults.num_key_value_heads > 0 ? defaults.num_key_value_heads
                                                                 : model.num_attention_heads;
  // Of latent attention the key means something else; ReadDeepSeekForms sets it.
  const bool has_head_dim =
      !HasLatentAttention(model_type) && config.Optional("head_dim") != nullptr;
  if (!has_head_dim && !HasLatentAttention(model_type) &&
      model.hidden_size % model.num_attention_heads != 0) {
    config.Fail("hidden_size", Concat(model.hidden_size),
                Concat("a multiple of the ", model.num_attention_heads, " heads"));
  }
  model.head_dim =
      has_head_dim ? config.Size("head_dim") : model.hidden_size / model.num_attention_heads;
  model.ffn_hidden_size = config.Size("intermediate_size");
  model.vocab_size = config.Size("vocab_size");
  model.max_sequence_length = config.Size("max_position_embeddings");
  model.tied_embeddings = config.FlagOr("tie_word_embeddings", false);
  model.norm_epsilon = config.NumberOr("rms_norm_eps", defaults.rms_norm_eps);
  model.init_standard_deviation = config.NumberOr("initializer_range", 0.02);
  config.OnlyText("hidden_act", {"silu", "swish"});
  ReadRope(config, defaults, model);
  ReadBiases(config, model_type, model);
  RefuseSlidingWindow(config, model_type, model.max_sequence_length);
  model.qk_norm = StartsWith(model_type, "qwen3");
  if (model_type == "qwen2_moe" || model_type == "qwen3_moe") ReadQwenExperts(config, model);
  if (model_type == "gpt_oss") ReadGptOssForms(config, model);
  if (HasLatentAttention(model_type)) ReadDeepSeekForms(config, model);
  if (model_type == "mixtral") {
    model.moe = MoeSpec{.num_experts = config.Count("num_local_experts"),
                        .experts_per_token = config.Count("num_experts_per_tok"),
                        .expert_ffn_hidden_size = model.ffn_hidden_size};
    ReadAuxiliaryLoss(config, /*standard=*/0.001, *model.moe);
    config.Only("router_jitter_noise", 0.0, "0");
  }
  return model;
}

void ReadDropout(Config& config, const std::string& model_type, DropoutSpec& dropout) {
  if (model_type == "gpt2") {
    config.Dropout("resid_pdrop", dropout.hidden);
    config.Dropout("attn_pdrop", dropout.attention);
    config.Dropout("embd_pdrop", dropout.embedding);
  } else {
    config.Dropout("attention_dropout", dropout.attention);
  }
}

}  // namespace

ModelSpec ModelFromHuggingFace(const json& document, const std::string& file,
                               TrainingSpec* training) {
  Config config(document, file);
  std::vector<std::string> types = {"gpt2"};
  for (const FamilyDefaults& family : kRotaryFamilies) types.emplace_back(family.model_type);
  const std::string type = config.Text("model_type", QuotedList(types));

  std::optional<ModelSpec> model;
  if (type == "gpt2") model = ReadGpt2(config);
  for (const FamilyDefaults& family : kRotaryFamilies) {
    if (type == family.model_type) model = ReadRotaryFamily(config, family);
  }
  if (!model) config.Fail("model_type", '"' + type + '"', QuotedList(types));
  DropoutSpec ignored;
  ReadDropout(config, type, training != nullptr ? training->dropout : ignored);

  // config.json says little: its folder is named after the model.
  const std::filesystem::path path(file);
  model->name =
      (path.filename() == "config.json" ? std::filesystem::absolute(path).parent_path().filename()
                                        : path.stem())
          .string();
  CheckModel(*model, file);
  return *model;
}

}  // namespace tessera::spec
