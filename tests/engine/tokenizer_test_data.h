// The small vocabulary of tests/golden/tokenizer, and what tests of tokenizers share.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "engine/data/tokenizer_choice.h"

namespace tessera::engine::test {

inline const std::string kTokenizerFolder = TESSERA_SOURCE_DIR "/tests/golden/tokenizer";
inline const std::string kTokenizerJson = kTokenizerFolder + "/tokenizer.json";

inline std::unique_ptr<Tokenizer> GoldenTokenizer(bool finds_specials = false) {
  return OpenTokenizer({.name = "gpt2:" + kTokenizerFolder, .finds_specials = finds_specials});
}

inline std::vector<int32_t> Encode(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<int32_t> tokens;
  tokenizer.NewEncoder()->Encode(text, tokens);
  return tokens;
}

// The text of each token, for expectations that read well.
inline std::vector<std::string> Pieces(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<std::string> pieces;
  for (const int32_t token : Encode(tokenizer, text)) {
    pieces.push_back(tokenizer.Decode({&token, 1}).value_or("?"));
  }
  return pieces;
}

}  // namespace tessera::engine::test
