#include "engine/data/byte_tokenizer.h"

#include <algorithm>

namespace tessera::engine {
namespace {

class ByteEncoder final : public TextEncoder {
 public:
  void Encode(std::string_view text, std::vector<int32_t>& tokens) override {
    const size_t old_size = tokens.size();
    tokens.resize(old_size + text.size());
    std::transform(text.begin(), text.end(), tokens.begin() + static_cast<std::ptrdiff_t>(old_size),
                   [](char byte) { return int32_t{static_cast<uint8_t>(byte)}; });
  }
};

}  // namespace

std::optional<int32_t> ByteTokenizer::end_of_document() const {
  return has_end_of_document_ ? std::optional(kEndOfDocument) : std::nullopt;
}

std::unique_ptr<TextEncoder> ByteTokenizer::NewEncoder() const {
  return std::make_unique<ByteEncoder>();
}

std::optional<std::string> ByteTokenizer::Decode(std::span<const int32_t> tokens) const {
  std::string text;
  for (const int32_t token : tokens) {
    if (token < 0 || token > kEndOfDocument) return std::nullopt;
    if (token == kEndOfDocument) {
      text += "<|end|>";
    } else {
      text += static_cast<char>(token);
    }
  }
  return text;
}

}  // namespace tessera::engine
