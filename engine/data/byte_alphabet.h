// The printable characters that stand for bytes in the files of byte-level BPE tokenizers.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace tessera::engine {

// The bytes that a token in the byte alphabet stands for; none where a character is not of the
// alphabet. Bytes 33 to 126, 161 to 172 and 174 to 255 are the characters of the same code points,
// the others in their order those from U+0100 on.
// Source: github.com/openai/gpt-2, src/encoder.py, bytes_to_unicode.
std::optional<std::string> BytesOfToken(std::string_view token);

}  // namespace tessera::engine
