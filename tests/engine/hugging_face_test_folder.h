// Models in Hugging Face's form, written by hand from the names and shapes that its model classes
// have, every element telling where it is.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cost_model/spec/spec_json.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/safetensors_writer.h"
#include "tests/engine/checkpoint_test_state.h"
#include "tests/engine/data_test_files.h"

namespace tessera::engine::test {

using TensorList = std::vector<TensorDeclaration>;

// GPT2LMHeadModel: Conv1D weights are [in, out], q, k and v side by side.
inline TensorList Gpt2Tensors(const spec::ModelSpec& model, const std::string& prefix) {
  const int64_t h = model.hidden_size;
  const int64_t f = model.ffn_hidden_size;
  TensorList tensors = {{prefix + "wte.weight", {model.vocab_size, h}},
                        {prefix + "wpe.weight", {model.max_sequence_length, h}},
                        {prefix + "ln_f.weight", {h}},
                        {prefix + "ln_f.bias", {h}}};
  for (int i = 0; i < model.num_layers; ++i) {
    const std::string layer = prefix + "h." + std::to_string(i) + ".";
    const TensorList in_layer = {{"ln_1.weight", {h}},
                                 {"ln_1.bias", {h}},
                                 {"attn.c_attn.weight", {h, 3 * h}},
                                 {"attn.c_attn.bias", {3 * h}},
                                 {"attn.c_proj.weight", {h, h}},
                                 {"attn.c_proj.bias", {h}},
                                 {"ln_2.weight", {h}},
                                 {"ln_2.bias", {h}},
                                 {"mlp.c_fc.weight", {h, f}},
                                 {"mlp.c_fc.bias", {f}},
                                 {"mlp.c_proj.weight", {f, h}},
                                 {"mlp.c_proj.bias", {h}}};
    for (const TensorDeclaration& each : in_layer) {
      tensors.push_back({layer + each.name, each.shape});
    }
  }
  return tensors;
}

// LlamaForCausalLM and Qwen2ForCausalLM.
inline TensorList LlamaTensors(const spec::ModelSpec& model, const std::string& prefix) {
  const int64_t h = model.hidden_size;
  const int64_t f = model.ffn_hidden_size;
  const int64_t q = model.num_attention_heads * model.head_dim;
  const int64_t kv = model.num_key_value_heads * model.head_dim;
  TensorList tensors = {{prefix + "embed_tokens.weight", {model.vocab_size, h}},
                        {prefix + "norm.weight", {h}}};
  if (!model.tied_embeddings) tensors.push_back({"lm_head.weight", {model.vocab_size, h}});
  for (int i = 0; i < model.num_layers; ++i) {
    const std::string layer = prefix + "layers." + std::to_string(i) + ".";
    TensorList in_layer = {
        {"self_attn.q_proj.weight", {q, h}},     {"self_attn.k_proj.weight", {kv, h}},
        {"self_attn.v_proj.weight", {kv, h}},    {"self_attn.o_proj.weight", {h, q}},
        {"mlp.gate_proj.weight", {f, h}},        {"mlp.up_proj.weight", {f, h}},
        {"mlp.down_proj.weight", {h, f}},        {"input_layernorm.weight", {h}},
        {"post_attention_layernorm.weight", {h}}};
    if (model.qkv_bias) {
      in_layer.push_back({"self_attn.q_proj.bias", {q}});
      in_layer.push_back({"self_attn.k_proj.bias", {kv}});
      in_layer.push_back({"self_attn.v_proj.bias", {kv}});
    }
    for (const TensorDeclaration& each : in_layer) {
      tensors.push_back({layer + each.name, each.shape});
    }
  }
  return tensors;
}

// Qwen2MoeForCausalLM, every layer with experts; Qwen2's but for the MLP.
inline TensorList QwenMoeTensors(const spec::ModelSpec& model, const std::string& prefix) {
  TensorList tensors;
  for (const TensorDeclaration& tensor : LlamaTensors(model, prefix)) {
    if (tensor.name.find(".mlp.") == std::string::npos) tensors.push_back(tensor);
  }
  const int64_t h = model.hidden_size;
  const auto add_mlp = [&](const std::string& mlp, int64_t f) {
    tensors.push_back({mlp + "gate_proj.weight", {f, h}});
    tensors.push_back({mlp + "up_proj.weight", {f, h}});
    tensors.push_back({mlp + "down_proj.weight", {h, f}});
  };
  for (int i = 0; i < model.num_layers; ++i) {
    const std::string mlp = prefix + "layers." + std::to_string(i) + ".mlp.";
    tensors.push_back({mlp + "gate.weight", {model.moe->num_experts, h}});
    for (int expert = 0; expert < model.moe->num_experts; ++expert) {
      add_mlp(mlp + "experts." + std::to_string(expert) + ".", model.moe->expert_ffn_hidden_size);
    }
    add_mlp(mlp + "shared_expert.", model.moe->shared_expert_ffn_hidden_size);
    tensors.push_back({mlp + "shared_expert_gate.weight", {1, h}});
  }
  return tensors;
}

inline TensorList TensorsOf(const spec::ModelSpec& model) {
  if (model.moe) return QwenMoeTensors(model, "model.");

  return model.norm == spec::NormKind::kLayerNorm ? Gpt2Tensors(model, "transformer.")
                                                  : LlamaTensors(model, "model.");
}

// Element `index` of a Hugging Face tensor in these tests.
inline float HuggingFaceValue(const std::string& name, int64_t index) {
  return ReferenceValues(name, StateKind::kWeight).At(index);
}

// Writes the tensors, in shards above `max_shard_bytes`, and config.json.
inline void WriteHuggingFaceFolder(const std::string& folder, const spec::ModelSpec& model,
                                   const TensorList& tensors,
                                   int64_t max_shard_bytes = kDefaultMaxShardBytes) {
  MakeFolders(folder);
  SafetensorsModelWriter writer(folder, tensors, max_shard_bytes);
  for (const TensorDeclaration& tensor : tensors) {
    std::vector<float> values(static_cast<size_t>(*CheckedNumElements(tensor.shape)));
    const ReferenceValues reference(tensor.name, StateKind::kWeight);
    for (size_t i = 0; i < values.size(); ++i) values[i] = reference.At(static_cast<int64_t>(i));
    writer.AppendTensor(values);
  }
  writer.Finish();
  WriteWholeFile(folder + "/config.json", spec::WriteHuggingFaceConfig(model));
}

struct StoredTensor {
  std::vector<int64_t> shape;
  std::string bytes;
  bool operator==(const StoredTensor&) const = default;
};

// Every tensor of a folder with its bytes.
inline std::map<std::string, StoredTensor> ReadAllTensors(const std::string& folder) {
  const SafetensorsSet set(folder);
  std::map<std::string, StoredTensor> tensors;
  for (const auto& [name, view] : set.tensors()) {
    const std::span<const std::byte> bytes = view.Bytes();
    tensors[name] = {view.tensor->shape,
                     {reinterpret_cast<const char*>(bytes.data()), bytes.size()}};
  }
  return tensors;
}

}  // namespace tessera::engine::test
