#include "engine/checkpoint/llmc_model.h"

#include <array>
#include <cstring>
#include <map>
#include <string_view>

#include "cost_model/base/error.h"
#include "engine/checkpoint/hugging_face_names.h"
#include "engine/data/mapped_file.h"

namespace tessera::engine {
namespace {

using base::Concat;
using base::ConfigError;

constexpr int32_t kMagic = 20240326;
constexpr int32_t kFp32Version = 3;
constexpr int32_t kBf16Version = 5;
constexpr int64_t kNumHeaderWords = kLlmCModelHeaderBytes / 4;
constexpr int64_t kVocabMultiple = 128;
constexpr int64_t kMlpRatio = 4;
constexpr double kNormEpsilon = 1e-5;

// Words of the header.
enum HeaderWord : int {
  kMagicWord,
  kVersionWord,
  kMaxSequenceWord,
  kVocabWord,
  kLayersWord,
  kHeadsWord,
  kHiddenWord,
  kPaddedVocabWord
};
constexpr std::array<std::string_view, 8> kWordNames = {
    "magic number", "version", "longest sequence", "vocabulary",
    "layers",       "heads",   "hidden size",      "padded vocabulary"};

// Tensors of a layer; a product of llm.c's with several of ours lies in one tensor there.
constexpr std::array<std::array<std::string_view, 3>, 12> kLayerTensors = {
    {{"attention.norm.weight"},
     {"attention.norm.bias"},
     {"attention.q.weight", "attention.k.weight", "attention.v.weight"},
     {"attention.q.bias", "attention.k.bias", "attention.v.bias"},
     {"attention.output.weight"},
     {"attention.output.bias"},
     {"mlp.norm.weight"},
     {"mlp.norm.bias"},
     {"mlp.up.weight"},
     {"mlp.up.bias"},
     {"mlp.down.weight"},
     {"mlp.down.bias"}}};

std::vector<std::string> NamesInOrder(int num_layers) {
  std::vector<std::string> names = {spec::kWordEmbedding, "embedding.position.weight"};
  for (const auto& tensor : kLayerTensors) {
    for (int layer = 0; layer < num_layers; ++layer) {
      for (const std::string_view part : tensor) {
        if (!part.empty()) names.push_back(Concat("layers.", layer, ".", part));
      }
    }
  }
  names.insert(names.end(), {"final_norm.weight", "final_norm.bias"});
  return names;
}

class HeaderReader {
 public:
  HeaderReader(const std::byte* header, const std::string& path) : header_(header), path_(path) {}

  int32_t Word(HeaderWord word) const { return LoadAt<int32_t>(header_ + 4 * word); }
  int64_t Size(HeaderWord word) const {
    if (Word(word) < 1) Fail(word, "a number from 1");
    return Word(word);
  }
  [[noreturn]] void Fail(HeaderWord word, const std::string& expected) const {
    throw ConfigError(path_, Concat("byte ", 4 * word),
                      Concat(kWordNames[static_cast<size_t>(word)], " ", Word(word)), expected);
  }

 private:
  const std::byte* header_;
  const std::string& path_;
};

LlmCType TypeOf(const HeaderReader& header) {
  if (header.Word(kMagicWord) != kMagic) {
    header.Fail(kMagicWord, Concat(kMagic, " (a model file of llm.c)"));
  }
  switch (header.Word(kVersionWord)) {
    case kFp32Version:
      return LlmCType::kFp32;
    case kBf16Version:
      return LlmCType::kBf16;
    default:
      header.Fail(kVersionWord, Concat(kFp32Version, " (fp32) or ", kBf16Version, " (bf16)"));
  }
}

// Bytes of the file that the header speaks of. In double, which is exact as far as there are such
// files, while whole numbers out of a file may overflow.
double FileBytes(const LlmCModel& header) {
  const auto h = static_cast<double>(header.model.hidden_size);
  const double layers = static_cast<double>(header.model.num_layers) * (12 * h * h + 13 * h);
  constexpr int kFinalNormRows = 2;
  const auto rows = static_cast<double>(header.padded_vocab_size +
                                        header.model.max_sequence_length + kFinalNormRows);
  return static_cast<double>(kLlmCModelHeaderBytes) +
         (layers + rows * h) * static_cast<double>(SizeBytes(header.type));
}

}  // namespace

int64_t SizeBytes(LlmCType type) { return type == LlmCType::kFp32 ? 4 : 2; }

int64_t LlmCPaddedVocabSize(int64_t vocab_size) {
  return (vocab_size + kVocabMultiple - 1) / kVocabMultiple * kVocabMultiple;
}

std::vector<CheckpointParameter> LlmCParameters(const spec::ModelSpec& model) {
  const bool is_known = HuggingFaceFamilyOf(model) == HuggingFaceFamily::kGpt2 &&
                        model.tied_embeddings && model.norm_epsilon == kNormEpsilon &&
                        model.ffn_hidden_size == kMlpRatio * model.hidden_size;
  if (!is_known) {
    throw ConfigError(
        "model '" + model.name + "'", "",
        Concat("ffn_hidden_size ", model.ffn_hidden_size, ", norm_epsilon ", model.norm_epsilon,
               ", tied_embeddings ", model.tied_embeddings),
        Concat("a GPT-2 with tied embeddings, an MLP of ", kMlpRatio, " times the hidden size ",
               model.hidden_size, " and norm_epsilon ", kNormEpsilon, " for llm.c's form"));
  }
  std::map<std::string, CheckpointParameter> by_name;
  for (CheckpointParameter& each : CheckpointParameters(model)) by_name[each.name] = each;
  std::vector<CheckpointParameter> parameters;
  for (const std::string& name : NamesInOrder(model.num_layers)) {
    parameters.push_back(by_name.at(name));
  }
  TESSERA_CHECK(parameters.size() == by_name.size(), by_name.size(), " parameters");
  return parameters;
}

std::string WriteLlmCHeader(const LlmCModel& header) {
  const spec::ModelSpec& model = header.model;
  std::array<int32_t, kNumHeaderWords> words = {};
  words[kMagicWord] = kMagic;
  words[kVersionWord] = header.type == LlmCType::kFp32 ? kFp32Version : kBf16Version;
  words[kMaxSequenceWord] = static_cast<int32_t>(model.max_sequence_length);
  words[kVocabWord] = static_cast<int32_t>(model.vocab_size);
  words[kLayersWord] = model.num_layers;
  words[kHeadsWord] = model.num_attention_heads;
  words[kHiddenWord] = static_cast<int32_t>(model.hidden_size);
  words[kPaddedVocabWord] = static_cast<int32_t>(header.padded_vocab_size);
  std::string text(kLlmCModelHeaderBytes, '\0');
  std::memcpy(text.data(), words.data(), text.size());
  return text;
}

LlmCModel ParseLlmCHeader(const std::byte* bytes, int64_t size_bytes, const std::string& path) {
  const HeaderReader header(bytes, path);
  LlmCModel result;
  result.type = TypeOf(header);
  spec::ModelSpec& model = result.model;
  model.max_sequence_length = header.Size(kMaxSequenceWord);
  model.vocab_size = header.Size(kVocabWord);
  model.num_layers = static_cast<int>(header.Size(kLayersWord));
  model.num_attention_heads = static_cast<int>(header.Size(kHeadsWord));
  model.num_key_value_heads = model.num_attention_heads;
  model.hidden_size = header.Size(kHiddenWord);
  if (model.hidden_size % model.num_attention_heads != 0) {
    header.Fail(kHiddenWord, Concat("a multiple of the ", model.num_attention_heads, " heads"));
  }
  model.head_dim = model.hidden_size / model.num_attention_heads;
  model.ffn_hidden_size = kMlpRatio * model.hidden_size;
  model.qkv_bias = model.attention_output_bias = model.mlp_bias = model.tied_embeddings = true;
  model.norm_epsilon = kNormEpsilon;
  result.padded_vocab_size = header.Size(kPaddedVocabWord);
  if (result.padded_vocab_size < model.vocab_size) {
    header.Fail(kPaddedVocabWord, Concat("at least the vocabulary of ", model.vocab_size));
  }
  const double expected_bytes = FileBytes(result);
  if (expected_bytes != static_cast<double>(size_bytes)) {
    // A broken header may speak of more than a whole number holds.
    constexpr double kMaxShownBytes = 1e18;
    const std::string expected = expected_bytes <= kMaxShownBytes
                                     ? Concat(static_cast<int64_t>(expected_bytes))
                                     : Concat(expected_bytes);
    throw ConfigError(path, "", Concat(size_bytes, " bytes"),
                      Concat(expected, ", as the sizes in the header say"));
  }
  return result;
}

}  // namespace tessera::engine
