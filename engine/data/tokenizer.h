// Text to tokens and back.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::engine {

// One thread's way from text to tokens, with the scratch memory it takes. What it returns depends
// on the text alone.
class TextEncoder {
 public:
  virtual ~TextEncoder() = default;
  // Appends the tokens of `text`, which may be any bytes. Throws base::ConfigError for a text that
  // the tokenizer's library refuses.
  virtual void Encode(std::string_view text, std::vector<int32_t>& tokens) = 0;
};

// Safe to use from several threads, each with an encoder of its own.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;
  // What it is, for reports.
  virtual std::string name() const = 0;
  // One more than the highest id.
  virtual int64_t vocab_size() const = 0;
  // The token that stands behind a document; none where the vocabulary has no such token.
  virtual std::optional<int32_t> end_of_document() const = 0;
  // The tokenizer must outlive the encoder.
  virtual std::unique_ptr<TextEncoder> NewEncoder() const = 0;
  // The text of tokens; none where an id is not in the vocabulary.
  virtual std::optional<std::string> Decode(std::span<const int32_t> tokens) const = 0;
  // The first place from `from` on at which `text` may be cut: the tokens of both parts, one after
  // the other, are those of the whole. npos where there is no such place, or none that is known.
  virtual size_t FindCut(std::string_view text, size_t from) const = 0;
};

// The decoded tokens as readable text on one line; empty where an id is not in the vocabulary.
std::string PrintableTokens(const Tokenizer& tokenizer, std::span<const int32_t> tokens);

}  // namespace tessera::engine
