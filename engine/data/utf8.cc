#include "engine/data/utf8.h"

#include <cstdint>
#include <cstring>

namespace tessera::engine {
namespace {

std::string Escape(char character) {
  constexpr std::string_view kHexDigits = "0123456789abcdef";
  switch (character) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\\':
      return "\\\\";
    default:
      break;
  }
  const auto byte = static_cast<uint8_t>(character);
  return {'\\', 'x', kHexDigits[byte >> 4], kHexDigits[byte & 15]};
}

// Whether the eight bytes are ASCII.
bool AreAscii(const char* bytes) {
  uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof(word));
  return (word & 0x8080808080808080) == 0;
}

}  // namespace

size_t Utf8Length(std::string_view text) {
  if (text.empty()) return 0;
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const auto lead = byte(0);
  if (lead < 0x80) return 1;
  const size_t length = lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : lead < 0xF5 ? 4 : 0;
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const bool is_overlong = (lead == 0xE0 && byte(1) < 0xA0) || (lead == 0xF0 && byte(1) < 0x90);
  const bool is_surrogate = lead == 0xED && byte(1) >= 0xA0;
  const bool is_past_unicode = lead == 0xF4 && byte(1) >= 0x90;
  return is_overlong || is_surrogate || is_past_unicode ? 0 : length;
}

size_t Utf8PrefixLength(std::string_view text) {
  size_t end = 0;
  while (end < text.size()) {
    while (text.size() - end >= sizeof(uint64_t) && AreAscii(text.data() + end)) {
      end += sizeof(uint64_t);
    }
    const size_t length = Utf8Length(text.substr(end));
    if (length == 0) break;
    end += length;
  }
  return end;
}

std::string PrintableText(std::string_view bytes) {
  std::string out;
  while (!bytes.empty()) {
    const auto first = static_cast<uint8_t>(bytes.front());
    size_t length = Utf8Length(bytes);
    // C1 controls are two bytes of UTF-8, C2 80 to C2 9F.
    const bool is_control = first < 0x20 || first == 0x7F ||
                            (length == 2 && first == 0xC2 && static_cast<uint8_t>(bytes[1]) < 0xA0);
    if (length == 0 || is_control || first == '\\') {
      out += Escape(bytes.front());
      length = 1;
    } else {
      out += bytes.substr(0, length);
    }
    bytes.remove_prefix(length);
  }
  return out;
}

}  // namespace tessera::engine
