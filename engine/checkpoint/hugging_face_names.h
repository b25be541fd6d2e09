// How a model's parameters are named and laid out in Hugging Face's form.
#pragma once

#include <string>
#include <vector>

#include "cost_model/spec/model_spec.h"
#include "cost_model/spec/parameter_list.h"

namespace tessera::engine {

enum class HuggingFaceFamily : uint8_t { kGpt2, kLlama, kQwenMoe };

// GPT-2's names, those that Llama, Mistral, Qwen2 and Mixtral share, or Qwen2's with experts.
// Throws base::ConfigError for a model that is of no such family.
HuggingFaceFamily HuggingFaceFamilyOf(const spec::ModelSpec& model);

// One tensor: our parameters (weights [out, in], biases [out]) stacked along their first dimension,
// then transposed where the family stores [in, out].
struct HuggingFaceTensor {
  std::string name;
  std::vector<int64_t> shape;
  bool transposed = false;
  std::vector<spec::ParameterSpec> parts;
};

// All tensors of the model, a tied head apart. Throws as HuggingFaceFamilyOf does.
// Rotary embeddings rotate halves on both sides, so queries and keys need no reordering.
std::vector<HuggingFaceTensor> HuggingFaceTensors(const spec::ModelSpec& model);

// What names of the family's inner model start with: "transformer." or "model.". Files of the bare
// model lack it.
std::string HuggingFacePrefix(HuggingFaceFamily family);

// Buffers that some files hold and that are no weights: masks, rotary frequencies.
bool IsHuggingFaceBuffer(const std::string& name);

inline constexpr const char* kHuggingFaceHeadName = "lm_head.weight";
inline constexpr const char* kHuggingFaceConfigName = "config.json";

}  // namespace tessera::engine
