// Text as its bytes: token i is byte i, 256 ends a document.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tessera::engine {

class ByteTokenizer {
 public:
  static constexpr int32_t kEndOfDocument = 256;

  explicit ByteTokenizer(bool has_end_of_document) : has_end_of_document_(has_end_of_document) {}

  bool has_end_of_document() const { return has_end_of_document_; }
  // 256, or 257 with an end of document.
  int64_t vocab_size() const { return has_end_of_document_ ? 257 : 256; }

  // Appends the tokens of `text`.
  void Encode(std::string_view text, std::vector<int32_t>& tokens) const;

 private:
  bool has_end_of_document_;
};

// Bytes as readable text on one line: control characters and what is not UTF-8 as escapes, an end
// of document as "<|end|>"; empty where a token is not of the byte tokenizer.
std::string PrintableBytes(std::span<const int32_t> tokens);

}  // namespace tessera::engine
