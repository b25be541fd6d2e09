#include "engine/data/bpe_tokenizer.h"

#include <algorithm>
#include <array>
#include <utility>

#include "cost_model/base/error.h"
#include "engine/data/bpe_merger.h"
#include "engine/data/piece_cache.h"
#include "engine/data/utf8.h"

namespace tessera::engine {
namespace {

// The tokens that stand behind a document in GPT-2, Llama 3, Llama 2, Gemma.
constexpr std::array<std::string_view, 4> kEndsOfDocument = {"<|endoftext|>", "<|end_of_text|>",
                                                             "</s>", "<eos>"};

// Llama 3's, and with single digits Qwen2's.
constexpr std::string_view kLlama3Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr std::string_view kQwen2Pattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

bool IsAsciiLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

// Whether `text` has a letter before a space from `from` on, and where the space is.
size_t FindEndOfWord(std::string_view text, size_t from) {
  for (size_t i = std::max<size_t>(from, 1); i < text.size(); ++i) {
    if (text[i] == ' ' && IsAsciiLetter(text[i - 1])) return i;
  }
  return std::string_view::npos;
}

// An expression that matches the texts, longer ones first.
std::string AnyOf(std::vector<std::string> texts) {
  std::stable_sort(texts.begin(), texts.end(),
                   [](const std::string& a, const std::string& b) { return a.size() > b.size(); });
  std::string pattern;
  for (const std::string& text : texts) {
    if (!pattern.empty()) pattern += '|';
    for (const char c : text) {
      // Before anything but letters and digits a backslash takes the next byte as it is.
      const bool is_word = IsAsciiLetter(c) || (c >= '0' && c <= '9') || (c & 0x80) != 0;
      if (!is_word) pattern += '\\';
      pattern += c;
    }
  }
  return pattern;
}

std::vector<std::string> TextsOf(const std::vector<BpeToken>& tokens) {
  std::vector<std::string> texts;
  for (const BpeToken& token : tokens) texts.push_back(token.bytes);
  return texts;
}

}  // namespace

class BpeEncoder final : public TextEncoder {
 public:
  explicit BpeEncoder(const BpeTokenizer& tokenizer)
      : tokenizer_(tokenizer), merger_(tokenizer.vocabulary_) {
    if (tokenizer.pieces_) pieces_.emplace(*tokenizer.pieces_);
    if (tokenizer.specials_) specials_.emplace(*tokenizer.specials_);
  }

  void Encode(std::string_view text, std::vector<int32_t>& tokens) override {
    size_t begin = 0;
    while (specials_) {
      const auto special = specials_->Find(text, begin);
      if (!special) break;
      EncodeText(text.substr(begin, special->begin - begin), tokens);
      const auto id =
          tokenizer_.vocabulary_.Find(text.substr(special->begin, special->end - special->begin));
      TESSERA_CHECK(id.has_value(), "a special token that is none");
      tokens.push_back(*id);
      begin = special->end;
    }
    EncodeText(text.substr(begin), tokens);
  }

 private:
  void EncodeText(std::string_view text, std::vector<int32_t>& tokens) {
    while (!text.empty()) {
      const size_t length = Utf8PrefixLength(text);
      EncodeUtf8(text.substr(0, length), tokens);
      text.remove_prefix(length);
      size_t broken = 0;
      while (broken < text.size() && Utf8Length(text.substr(broken)) == 0) ++broken;
      EncodePiece(text.substr(0, broken), tokens);
      text.remove_prefix(broken);
    }
  }

  void EncodeUtf8(std::string_view text, std::vector<int32_t>& tokens) {
    size_t begin = 0;
    while (pieces_ && begin < text.size()) {
      const auto piece = pieces_->Find(text, begin);
      if (!piece) break;
      EncodePiece(text.substr(begin, piece->begin - begin), tokens);
      EncodePiece(text.substr(piece->begin, piece->end - piece->begin), tokens);
      begin = piece->end;
    }
    EncodePiece(text.substr(begin), tokens);
  }

  void EncodePiece(std::string_view piece, std::vector<int32_t>& tokens) {
    if (piece.empty()) return;
    const std::span<const int32_t> kept = cache_.Find(piece);
    if (!kept.empty()) {
      tokens.insert(tokens.end(), kept.begin(), kept.end());
      return;
    }
    const size_t old_size = tokens.size();
    const auto known =
        tokenizer_.keeps_known_pieces_ ? tokenizer_.vocabulary_.Find(piece) : std::nullopt;
    if (known && !tokenizer_.special_ids_.contains(*known)) {
      tokens.push_back(*known);
    } else {
      merger_.Encode(piece, tokens);
    }
    cache_.Keep(piece, std::span(tokens).subspan(old_size));
  }

  const BpeTokenizer& tokenizer_;
  std::optional<Regex::Search> pieces_;
  std::optional<Regex::Search> specials_;
  BpeMerger merger_;
  PieceCache cache_;
};

BpeTokenizer::BpeTokenizer(const BpeDescription& description, BpeOptions options)
    : options_(std::move(options)),
      vocabulary_(description),
      keeps_known_pieces_(description.keeps_known_pieces) {
  if (!description.pattern.empty()) {
    pieces_.emplace(description.pattern, Regex::Subject::kUtf8, description.path);
  }
  if (options_.finds_specials && !description.specials.empty()) {
    specials_.emplace(AnyOf(TextsOf(description.specials)), Regex::Subject::kBytes,
                      description.path);
  }
  for (const BpeToken& special : description.specials) special_ids_.insert(special.id);
  ChooseEndOfDocument(description);
  FindCutsAllowed(description);
}

void BpeTokenizer::ChooseEndOfDocument(const BpeDescription& description) {
  if (!options_.end_of_document.empty()) {
    end_of_document_ = vocabulary_.Find(options_.end_of_document);
    if (end_of_document_) return;
    throw base::ConfigError(description.path, "",
                            base::Concat("no token \"", options_.end_of_document, '"'),
                            "the end of a document as a token of the vocabulary");
  }
  for (const std::string_view name : kEndsOfDocument) {
    for (const BpeToken& special : description.specials) {
      if (!end_of_document_ && special.bytes == name) end_of_document_ = special.id;
    }
  }
}

// By these patterns a piece with a letter in it is a word or the end of a contraction, and ends
// before a space, whatever comes before and after. Of another pattern nobody knows.
void BpeTokenizer::FindCutsAllowed(const BpeDescription& description) {
  cuts_after_words_ = description.pattern == kGpt2Pattern ||
                      description.pattern == kLlama3Pattern || description.pattern == kQwen2Pattern;
  if (!specials_) return;
  for (const BpeToken& special : description.specials) {
    if (FindEndOfWord(special.bytes, 0) != std::string_view::npos) cuts_after_words_ = false;
  }
}

std::unique_ptr<TextEncoder> BpeTokenizer::NewEncoder() const {
  return std::make_unique<BpeEncoder>(*this);
}

std::optional<std::string> BpeTokenizer::Decode(std::span<const int32_t> tokens) const {
  std::string text;
  for (const int32_t token : tokens) {
    const std::string* const bytes = vocabulary_.BytesOf(token);
    if (bytes == nullptr) return std::nullopt;
    text += *bytes;
  }
  return text;
}

size_t BpeTokenizer::FindCut(std::string_view text, size_t from) const {
  return cuts_after_words_ ? FindEndOfWord(text, from) : std::string_view::npos;
}

}  // namespace tessera::engine
