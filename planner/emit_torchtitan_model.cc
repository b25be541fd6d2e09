#include "planner/emit_torchtitan_model.h"

#include "cost_model/base/check.h"

namespace tessera::planner {
namespace {

using base::Concat;
using spec::ModelSpec;

struct Flavor {
  const char* model;
  const char* name;
  int num_layers;
  int64_t hidden_size;
  int num_attention_heads;
  int num_key_value_heads;
};

// Registered in torchtitan's model folders.
constexpr Flavor kFlavors[] = {
    {"llama3", "8B", 32, 4096, 32, 8},           {"llama3", "70B", 80, 8192, 64, 8},
    {"llama3", "405B", 126, 16384, 128, 8},      {"deepseek_v3", "16B", 27, 2048, 16, 16},
    {"deepseek_v3", "236B", 60, 5120, 128, 128}, {"deepseek_v3", "671B", 61, 7168, 128, 128}};

// Empty where torchtitan has no such form: its Llama 3 has grouped queries, SwiGLU, RMS norms and
// no biases; its DeepSeek-V3 latent attention and experts.
std::string FormOf(const ModelSpec& model) {
  const bool is_plain = model.norm == spec::NormKind::kRmsNorm &&
                        model.position == spec::PositionKind::kRope &&
                        model.activation == spec::ActivationKind::kSwiGlu && !model.qkv_bias &&
                        !model.qk_norm && !model.mlp_bias && !model.attention_output_bias &&
                        !model.sliding_window && model.num_multi_token_layers == 0;
  if (!is_plain) return "";
  if (model.mla) return model.moe ? "deepseek_v3" : "";
  return model.moe ? "" : "llama3";
}

}  // namespace

TorchtitanModel TorchtitanModelOf(const ModelSpec& model) {
  TorchtitanModel result = {FormOf(model), ""};
  for (const Flavor& flavor : kFlavors) {
    if (result.name == flavor.model && model.num_layers == flavor.num_layers &&
        model.hidden_size == flavor.hidden_size &&
        model.num_attention_heads == flavor.num_attention_heads &&
        model.num_key_value_heads == flavor.num_key_value_heads && !model.tied_embeddings) {
      result.flavor = flavor.name;
    }
  }
  return result;
}

std::string TorchtitanSizesText(const ModelSpec& model) {
  return Concat("dim ", model.hidden_size, ", n_layers ", model.num_layers, ", n_heads ",
                model.num_attention_heads, ", n_kv_heads ", model.num_key_value_heads,
                ", rope_theta ", static_cast<int64_t>(model.rope_theta), ", MLP width ",
                model.ffn_hidden_size, ", vocab_size ", model.vocab_size);
}

}  // namespace tessera::planner
