// Byte-level BPE, the tokenizer of GPT-2 and many after it.
#pragma once

#include <string>
#include <unordered_set>

#include "engine/data/bpe_vocabulary.h"
#include "engine/data/regex.h"
#include "engine/data/tokenizer.h"

namespace tessera::engine {

struct BpeOptions {
  std::string name;             // for reports
  std::string end_of_document;  // text of that token; empty: the one usual name that is a token
  // Whether the text of a special token in a document becomes that token; else it is text like
  // any other.
  bool finds_specials = false;
};

// Text is cut into the matches of a pattern and what lies between them, each of which is merged by
// itself. Bytes that are no UTF-8 are pieces of their own, a run of them one piece.
class BpeTokenizer final : public Tokenizer {
 public:
  // Throws base::ConfigError for a description that BpeVocabulary refuses, a broken pattern, or an
  // end of document that is no token.
  BpeTokenizer(const BpeDescription& description, BpeOptions options);

  std::string name() const override { return options_.name; }
  int64_t vocab_size() const override { return vocabulary_.size(); }
  std::optional<int32_t> end_of_document() const override { return end_of_document_; }
  std::unique_ptr<TextEncoder> NewEncoder() const override;
  std::optional<std::string> Decode(std::span<const int32_t> tokens) const override;
  size_t FindCut(std::string_view text, size_t from) const override;

 private:
  friend class BpeEncoder;

  void ChooseEndOfDocument(const BpeDescription& description);
  void FindCutsAllowed(const BpeDescription& description);

  BpeOptions options_;
  BpeVocabulary vocabulary_;
  std::unordered_set<int32_t> special_ids_;
  bool keeps_known_pieces_;
  std::optional<Regex> pieces_;
  std::optional<Regex> specials_;  // where they are to be found
  bool cuts_after_words_ = false;
  std::optional<int32_t> end_of_document_;
};

}  // namespace tessera::engine
