#include "engine/data/tokenizer.h"

#include "engine/data/utf8.h"

namespace tessera::engine {

std::string PrintableTokens(const Tokenizer& tokenizer, std::span<const int32_t> tokens) {
  const std::optional<std::string> text = tokenizer.Decode(tokens);
  return text ? PrintableText(*text) : "";
}

}  // namespace tessera::engine
