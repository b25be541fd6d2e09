// Model files of karpathy/llm.c ("gpt2_124M.bin", "model_00000100.bin"): 256 int32 of header, then
// all weights of a GPT-2, little endian, each kind of tensor stacked over the layers.
// Format: write_model in llm.c's train_gpt2.py; gpt2_build_from_checkpoint in its train_gpt2.cu.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "cost_model/spec/model_spec.h"
#include "engine/checkpoint/manifest.h"
#include "engine/data/mapped_file.h"

namespace tessera::engine {

enum class LlmCType : uint8_t { kFp32, kBf16 };  // versions 3 and 5 of the file
int64_t SizeBytes(LlmCType type);

inline constexpr int64_t kLlmCModelHeaderBytes = 1024;

// What the header says.
struct LlmCModel {
  spec::ModelSpec model;
  LlmCType type = LlmCType::kFp32;
  int64_t padded_vocab_size = 0;  // rows of the word embedding, those past the vocabulary unused
};

// As llm.c pads it, to a multiple of 128.
int64_t LlmCPaddedVocabSize(int64_t vocab_size);

// The model's parameters in the order of the file. Behind the first, the word embedding, lie the
// rows that pad it. Throws base::ConfigError for a model that llm.c does not know: any but a GPT-2
// with tied embeddings, an MLP four times as wide as the hidden state, and its epsilon.
std::vector<CheckpointParameter> LlmCParameters(const spec::ModelSpec& model);

std::string WriteLlmCHeader(const LlmCModel& header);
// Of a file of `size_bytes` that starts with `header`. Throws base::ConfigError, naming the byte,
// for another kind of file, for sizes that make no model, and unless the weights fill the rest of
// the file exactly. REQUIRES: size_bytes >= kLlmCModelHeaderBytes.
LlmCModel ParseLlmCHeader(const std::byte* header, int64_t size_bytes, const std::string& path);

class LlmCFile {
 public:
  // Throws base::ConfigError as ParseLlmCHeader does, and for a file without one.
  explicit LlmCFile(const std::string& path);

  const spec::ModelSpec& model() const { return header_.model; }
  // All elements of one of our parameters.
  void Read(const CheckpointParameter& parameter, std::span<float> elements) const;

 private:
  MappedFile file_;
  LlmCModel header_;
  std::map<std::string, int64_t> offsets_bytes_;  // by parameter
};

// A checkpoint of step 0 without optimizer state; returns its path.
std::string ConvertFromLlmC(const std::string& path, const std::string& save_folder);
// The fp32 weights of a checkpoint, found as CheckpointReader does; rounded to nearest for kBf16.
void ConvertToLlmC(const std::string& checkpoint, const std::string& path, LlmCType type);

}  // namespace tessera::engine
