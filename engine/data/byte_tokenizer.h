// Text as its bytes: token i is byte i, 256 ends a document.
#pragma once

#include "engine/data/tokenizer.h"

namespace tessera::engine {

class ByteTokenizer final : public Tokenizer {
 public:
  static constexpr int32_t kEndOfDocument = 256;

  // With an end of document the vocabulary has 257 ids, without it 256.
  explicit ByteTokenizer(bool has_end_of_document) : has_end_of_document_(has_end_of_document) {}

  std::string name() const override { return "bytes"; }
  int64_t vocab_size() const override { return has_end_of_document_ ? 257 : 256; }
  std::optional<int32_t> end_of_document() const override;
  std::unique_ptr<TextEncoder> NewEncoder() const override;
  // Token 256 reads "<|end|>", here as in a vocabulary without it.
  std::optional<std::string> Decode(std::span<const int32_t> tokens) const override;
  size_t FindCut(std::string_view /*text*/, size_t from) const override { return from; }

 private:
  bool has_end_of_document_;
};

}  // namespace tessera::engine
