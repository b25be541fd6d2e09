#include <algorithm>
#include <cstring>
#include <span>

#include "cost_model/base/error.h"
#include "cost_model/base/float16.h"
#include "engine/checkpoint/checkpoint_reader.h"
#include "engine/checkpoint/file_io.h"
#include "engine/checkpoint/llmc_model.h"
#include "engine/checkpoint/weights_checkpoint.h"

namespace tessera::engine {
namespace {

void ReadElements(const std::byte* bytes, LlmCType type, std::span<float> elements) {
  if (type == LlmCType::kFp32) {
    std::memcpy(elements.data(), bytes, elements.size_bytes());
    return;
  }
  for (float& element : elements) {
    element = base::BFloat16ToFloat(LoadAt<uint16_t>(bytes));
    bytes += sizeof(uint16_t);
  }
}

void WriteElements(std::span<const float> elements, LlmCType type, OutputFile& file) {
  if (type == LlmCType::kFp32) {
    file.Write(std::as_bytes(elements));
    return;
  }
  std::vector<uint16_t> rounded(elements.size());
  std::transform(elements.begin(), elements.end(), rounded.begin(), base::FloatToBFloat16);
  file.Write(std::as_bytes(std::span<const uint16_t>(rounded)));
}

}  // namespace

LlmCFile::LlmCFile(const std::string& path) : file_(path) {
  if (file_.size_bytes() < kLlmCModelHeaderBytes) {
    throw base::ConfigError(path, base::Concat("byte ", file_.size_bytes()), "the end of the file",
                            base::Concat("a header of ", kLlmCModelHeaderBytes, " bytes"));
  }
  header_ = ParseLlmCHeader(file_.data(), file_.size_bytes(), path);
  const int64_t num_padding_elements =
      (header_.padded_vocab_size - header_.model.vocab_size) * header_.model.hidden_size;
  int64_t offset_bytes = kLlmCModelHeaderBytes;
  for (const CheckpointParameter& parameter : LlmCParameters(header_.model)) {
    offsets_bytes_[parameter.name] = offset_bytes;
    const int64_t padding = parameter.name == spec::kWordEmbedding ? num_padding_elements : 0;
    offset_bytes += (WholeTensor(parameter.shape).count + padding) * SizeBytes(header_.type);
  }
}

void LlmCFile::Read(const CheckpointParameter& parameter, std::span<float> elements) const {
  ReadElements(file_.data() + offsets_bytes_.at(parameter.name), header_.type, elements);
}

std::string ConvertFromLlmC(const std::string& path, const std::string& save_folder) {
  const LlmCFile file(path);
  return WriteWeightsCheckpoint(save_folder, file.model(), "weights from llm.c's form",
                                [&](const CheckpointParameter& parameter,
                                    std::span<float> elements) { file.Read(parameter, elements); });
}

void ConvertToLlmC(const std::string& checkpoint, const std::string& path, LlmCType type) {
  CheckpointReader reader(checkpoint);
  const spec::ModelSpec& model = reader.model();
  const std::vector<CheckpointParameter> parameters = LlmCParameters(model);
  const LlmCModel header = {
      .model = model, .type = type, .padded_vocab_size = LlmCPaddedVocabSize(model.vocab_size)};
  OutputFile file(InExistingFolder(path));
  file.Write(WriteLlmCHeader(header));
  std::vector<float> elements;
  for (const CheckpointParameter& parameter : parameters) {
    elements.resize(static_cast<size_t>(WholeTensor(parameter.shape).count));
    reader.Read(parameter.name, StateKind::kWeight, WholeTensor(parameter.shape), elements.data());
    if (parameter.name == spec::kWordEmbedding) {
      elements.resize(static_cast<size_t>(header.padded_vocab_size * model.hidden_size), 0.0F);
    }
    WriteElements(elements, type, file);
  }
  file.Commit();
}

}  // namespace tessera::engine
