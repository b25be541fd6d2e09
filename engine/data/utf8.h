// What of some bytes is UTF-8.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace tessera::engine {

// Bytes of the UTF-8 character at the start of `text`, in its shortest form; 0 where there is none.
size_t Utf8Length(std::string_view text);

// Bytes of the longest prefix of `text` that is UTF-8.
size_t Utf8PrefixLength(std::string_view text);

// Bytes as readable text on one line: control characters and what is not UTF-8 as escapes.
std::string PrintableText(std::string_view bytes);

}  // namespace tessera::engine
