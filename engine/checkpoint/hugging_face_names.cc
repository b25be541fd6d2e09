#include "engine/checkpoint/hugging_face_names.h"

#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "cost_model/base/error.h"
#include "cost_model/spec/spec_json.h"

namespace tessera::engine {
namespace {

using base::Concat;
using base::ConfigError;

struct NamePair {
  std::string_view ours;
  std::string_view theirs;
  bool transposed = false;  // the weight, in GPT-2's Conv1D
};

constexpr std::string_view kOurLayers = "layers.";

constexpr std::array<NamePair, 3> kGpt2Outer = {
    {{"embedding.word", "wte"}, {"embedding.position", "wpe"}, {"final_norm", "ln_f"}}};
constexpr std::array<NamePair, 8> kGpt2Layer = {{{"attention.norm", "ln_1"},
                                                 {"attention.q", "attn.c_attn", true},
                                                 {"attention.k", "attn.c_attn", true},
                                                 {"attention.v", "attn.c_attn", true},
                                                 {"attention.output", "attn.c_proj", true},
                                                 {"mlp.norm", "ln_2"},
                                                 {"mlp.up", "mlp.c_fc", true},
                                                 {"mlp.down", "mlp.c_proj", true}}};
constexpr std::array<NamePair, 2> kLlamaOuter = {
    {{"embedding.word", "embed_tokens"}, {"final_norm", "norm"}}};
constexpr std::array<NamePair, 10> kLlamaLayer = {{{"attention.norm", "input_layernorm"},
                                                   {"attention.q", "self_attn.q_proj"},
                                                   {"attention.k", "self_attn.k_proj"},
                                                   {"attention.v", "self_attn.v_proj"},
                                                   {"attention.output", "self_attn.o_proj"},
                                                   {"mlp.norm", "post_attention_layernorm"},
                                                   {"mlp.gate", "mlp.gate_proj"},
                                                   {"mlp.up", "mlp.up_proj"},
                                                   {"mlp.down", "mlp.down_proj"},
                                                   {"mlp.router", "block_sparse_moe.gate"}}};
// Below "mlp.experts.<e>." and "block_sparse_moe.experts.<e>.".
constexpr std::array<NamePair, 3> kExpert = {{{"gate", "w1"}, {"up", "w3"}, {"down", "w2"}}};

constexpr std::array<NamePair, 8> kQwenMoeMlp = {
    {{"mlp.gate", "mlp.gate_proj"},
     {"mlp.up", "mlp.up_proj"},
     {"mlp.down", "mlp.down_proj"},
     {"mlp.router", "mlp.gate"},
     {"mlp.shared_expert.gate", "mlp.shared_expert.gate_proj"},
     {"mlp.shared_expert.up", "mlp.shared_expert.up_proj"},
     {"mlp.shared_expert.down", "mlp.shared_expert.down_proj"},
     {"mlp.shared_expert.output_gate", "mlp.shared_expert_gate"}}};

struct Translation {
  std::string name;
  bool transposed = false;
};

template <size_t N>
Translation LookUp(const std::array<NamePair, N>& names, std::string_view ours,
                   std::string_view whole_name) {
  for (const NamePair& pair : names) {
    if (pair.ours == ours) return {std::string(pair.theirs), pair.transposed};
  }
  throw ConfigError(Concat("parameter '", whole_name, "' has no name in Hugging Face's form"));
}

// `module` is the name without ".weight" or ".bias", below a layer without "layers.<i>.".
Translation TranslateInLayer(HuggingFaceFamily family, std::string_view module,
                             std::string_view whole_name) {
  if (family == HuggingFaceFamily::kGpt2) return LookUp(kGpt2Layer, module, whole_name);
  constexpr std::string_view kExperts = "mlp.experts.";
  const bool is_qwen = family == HuggingFaceFamily::kQwenMoe;
  if (!module.starts_with(kExperts)) {
    const bool is_mlp = module.starts_with("mlp.") && module != "mlp.norm";
    return is_qwen && is_mlp ? LookUp(kQwenMoeMlp, module, whole_name)
                             : LookUp(kLlamaLayer, module, whole_name);
  }
  const size_t dot = module.find('.', kExperts.size());
  TESSERA_CHECK(dot != std::string_view::npos, whole_name);
  if (is_qwen) return {std::string(module) + "_proj"};
  return {Concat("block_sparse_moe.experts.", module.substr(kExperts.size(), dot - kExperts.size()),
                 ".", LookUp(kExpert, module.substr(dot + 1), whole_name).name)};
}

Translation Translate(HuggingFaceFamily family, const std::string& name) {
  if (name == "output.weight") return {kHuggingFaceHeadName};
  const bool is_gpt2 = family == HuggingFaceFamily::kGpt2;
  const size_t last_dot = name.rfind('.');
  std::string_view module = std::string_view(name).substr(0, last_dot);
  const std::string_view leaf = std::string_view(name).substr(last_dot);  // ".weight", ".bias"
  std::string prefix = HuggingFacePrefix(family);
  Translation result;
  if (module.starts_with(kOurLayers)) {
    const size_t dot = module.find('.', kOurLayers.size());
    prefix += Concat(is_gpt2 ? "h." : "layers.",
                     module.substr(kOurLayers.size(), dot + 1 - kOurLayers.size()));
    result = TranslateInLayer(family, module.substr(dot + 1), name);
  } else {
    result = is_gpt2 ? LookUp(kGpt2Outer, module, name) : LookUp(kLlamaOuter, module, name);
  }
  result.name = Concat(prefix, result.name, leaf);
  if (leaf != ".weight") result.transposed = false;
  return result;
}

}  // namespace

HuggingFaceFamily HuggingFaceFamilyOf(const spec::ModelSpec& model) {
  const bool is_gpt2 = model.norm == spec::NormKind::kLayerNorm &&
                       model.position == spec::PositionKind::kLearned &&
                       model.activation == spec::ActivationKind::kGelu && model.qkv_bias &&
                       model.attention_output_bias && model.mlp_bias && !model.moe &&
                       model.num_key_value_heads == model.num_attention_heads &&
                       model.num_attention_heads * model.head_dim == model.hidden_size;
  if (is_gpt2) return HuggingFaceFamily::kGpt2;
  const bool is_llama = model.norm == spec::NormKind::kRmsNorm &&
                        model.position == spec::PositionKind::kRope &&
                        model.activation == spec::ActivationKind::kSwiGlu;
  if (is_llama) {
    return model.moe && !spec::IsMixtral(model) ? HuggingFaceFamily::kQwenMoe
                                                : HuggingFaceFamily::kLlama;
  }
  throw ConfigError("model '" + model.name + "'", "",
                    Concat("norm ", ToString(model.norm), ", position ", ToString(model.position),
                           ", activation ", ToString(model.activation)),
                    "a model of the GPT-2 or the Llama family for Hugging Face's form");
}

std::vector<HuggingFaceTensor> HuggingFaceTensors(const spec::ModelSpec& model) {
  const HuggingFaceFamily family = HuggingFaceFamilyOf(model);
  std::vector<HuggingFaceTensor> tensors;
  std::map<std::string, size_t> index;
  for (spec::ParameterSpec& parameter : spec::ModelParameters(model)) {
    Translation translation = Translate(family, parameter.name);
    const auto [place, is_new] = index.emplace(translation.name, tensors.size());
    if (is_new) {
      tensors.push_back({.name = std::move(translation.name),
                         .shape = parameter.global_shape,
                         .transposed = translation.transposed,
                         .parts = {}});
    } else {
      tensors[place->second].shape[0] += parameter.global_shape[0];
    }
    tensors[place->second].parts.push_back(std::move(parameter));
  }
  for (HuggingFaceTensor& tensor : tensors) {
    if (tensor.transposed) std::swap(tensor.shape[0], tensor.shape[1]);
  }
  return tensors;
}

std::string HuggingFacePrefix(HuggingFaceFamily family) {
  return family == HuggingFaceFamily::kGpt2 ? "transformer." : "model.";
}

bool IsHuggingFaceBuffer(const std::string& name) {
  return name.ends_with(".attn.bias") || name.ends_with(".attn.masked_bias") ||
         name.ends_with(".rotary_emb.inv_freq");
}

}  // namespace tessera::engine
