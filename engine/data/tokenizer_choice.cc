#include "engine/data/tokenizer_choice.h"

#include "cost_model/base/error.h"
#include "engine/data/bpe_tokenizer.h"
#include "engine/data/byte_tokenizer.h"
#include "engine/data/sentencepiece_tokenizer.h"

namespace tessera::engine {
namespace {

constexpr std::string_view kGpt2Prefix = "gpt2:";
constexpr std::string_view kSentencePiecePrefix = "sentencepiece:";

void RefuseSpecials(const TokenizerOptions& options) {
  if (!options.finds_specials) return;
  throw base::ConfigError("--parse-special", "", base::Concat("the tokenizer ", options.name),
                          "gpt2:FOLDER or FILE.json");
}

std::unique_ptr<Tokenizer> OpenBytes(const TokenizerOptions& options) {
  RefuseSpecials(options);
  if (!options.end_of_document.empty()) {
    throw base::ConfigError("--eod-token", "", base::Concat('"', options.end_of_document, '"'),
                            "none with bytes, which end documents with token 256");
  }
  return std::make_unique<ByteTokenizer>(options.ends_documents);
}

std::unique_ptr<Tokenizer> OpenBpe(const BpeDescription& description,
                                   const TokenizerOptions& options) {
  return std::make_unique<BpeTokenizer>(description,
                                        BpeOptions{.name = options.name,
                                                   .end_of_document = options.end_of_document,
                                                   .finds_specials = options.finds_specials});
}

std::unique_ptr<Tokenizer> OpenByName(const TokenizerOptions& options) {
  const std::string& name = options.name;
  if (name == "bytes" || name == "byte") return OpenBytes(options);
  if (name.starts_with(kGpt2Prefix)) {
    return OpenBpe(ReadGpt2Folder(name.substr(kGpt2Prefix.size())), options);
  }
  const bool has_prefix = name.starts_with(kSentencePiecePrefix);
  if (has_prefix || name.ends_with(".model")) {
    RefuseSpecials(options);
    return OpenSentencePiece(has_prefix ? name.substr(kSentencePiecePrefix.size()) : name,
                             {.name = name, .end_of_document = options.end_of_document});
  }
  if (name.ends_with(".json")) return OpenBpe(ReadTokenizerJson(name), options);
  throw base::ConfigError("--tokenizer", "", base::Concat('"', name, '"'),
                          "bytes, gpt2:FOLDER, FILE.json, sentencepiece:FILE or FILE.model");
}

}  // namespace

std::unique_ptr<Tokenizer> OpenTokenizer(const TokenizerOptions& options) {
  std::unique_ptr<Tokenizer> tokenizer = OpenByName(options);
  if (options.ends_documents && !tokenizer->end_of_document()) {
    throw base::ConfigError(
        "--append-eod", "",
        base::Concat("no token of ", options.name, " that is known to end a document"),
        "one named by --eod-token");
  }
  return tokenizer;
}

}  // namespace tessera::engine
