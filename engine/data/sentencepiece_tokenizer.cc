#include "engine/data/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>

#include <exception>

#include "cost_model/base/error.h"
#include "cost_model/spec/strict_json.h"

namespace tessera::engine {
namespace {

using sentencepiece::SentencePieceProcessor;

class SentencePieceEncoder final : public TextEncoder {
 public:
  SentencePieceEncoder(const SentencePieceProcessor& processor, const std::string& path)
      : processor_(processor), path_(path) {}

  void Encode(std::string_view text, std::vector<int32_t>& tokens) override {
    const auto status = processor_.Encode({text.data(), text.size()}, &ids_);
    if (!status.ok()) {
      throw base::ConfigError(path_, "",
                              base::Concat("a text of ", text.size(), " bytes that it refuses (",
                                           status.ToString(), ')'),
                              "a model for it");
    }
    tokens.insert(tokens.end(), ids_.begin(), ids_.end());
  }

 private:
  const SentencePieceProcessor& processor_;
  const std::string& path_;
  std::vector<int> ids_;
};

class SentencePieceTokenizer final : public Tokenizer {
 public:
  SentencePieceTokenizer(const std::string& path, SentencePieceOptions options)
      : path_(path), options_(std::move(options)) {
    const std::string model = spec::ReadTextFile(path);
    if (!Load(model)) {
      throw base::ConfigError(path, "", base::Concat(model.size(), " bytes that are no model"),
                              "a model file of SentencePiece");
    }
    ChooseEndOfDocument();
  }

  std::string name() const override { return options_.name; }
  int64_t vocab_size() const override { return processor_.GetPieceSize(); }
  std::optional<int32_t> end_of_document() const override { return end_of_document_; }
  std::unique_ptr<TextEncoder> NewEncoder() const override {
    return std::make_unique<SentencePieceEncoder>(processor_, path_);
  }
  std::optional<std::string> Decode(std::span<const int32_t> tokens) const override {
    for (const int32_t token : tokens) {
      if (token < 0 || token >= vocab_size()) return std::nullopt;
    }
    std::string text;
    const std::vector<int> ids(tokens.begin(), tokens.end());
    const auto status = processor_.Decode(ids, &text);
    TESSERA_CHECK(status.ok(), status.ToString());
    return text;
  }
  // Which pieces a model chooses depends on all of the text.
  size_t FindCut(std::string_view /*text*/, size_t /*from*/) const override {
    return std::string_view::npos;
  }

 private:
  bool Load(const std::string& model) {
    try {
      // An empty file reads as a model without pieces.
      return processor_.LoadFromSerializedProto({model.data(), model.size()}).ok() &&
             processor_.GetPieceSize() > 0;
    } catch (const std::exception&) {  // of the library's index of pieces, for one without text
      return false;
    }
  }
  void ChooseEndOfDocument() {
    if (options_.end_of_document.empty()) {
      if (processor_.eos_id() >= 0) end_of_document_ = processor_.eos_id();
      return;
    }
    for (int id = 0; id < processor_.GetPieceSize(); ++id) {
      if (processor_.IdToPiece(id) == options_.end_of_document) end_of_document_ = id;
    }
    if (end_of_document_) return;
    throw base::ConfigError(path_, "", base::Concat("no piece \"", options_.end_of_document, '"'),
                            "the end of a document as a piece of the model");
  }

  std::string path_;
  SentencePieceOptions options_;
  SentencePieceProcessor processor_;
  std::optional<int32_t> end_of_document_;
};

}  // namespace

bool HasSentencePiece() { return true; }

std::unique_ptr<Tokenizer> OpenSentencePiece(const std::string& path,
                                             const SentencePieceOptions& options) {
  return std::make_unique<SentencePieceTokenizer>(path, options);
}

}  // namespace tessera::engine
