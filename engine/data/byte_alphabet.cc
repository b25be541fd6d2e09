#include "engine/data/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "engine/data/utf8.h"

namespace tessera::engine {
namespace {

// U+0100 to U+0143 stand for the 68 bytes that are no printable characters by themselves.
constexpr size_t kNumCodePoints = 0x144;
constexpr int kNoByte = -1;

constexpr bool StandsForItself(int byte) {
  return (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) ||
         (byte >= 174 && byte <= 255);
}

constexpr std::array<int, kNumCodePoints> MakeByteOfCodePoint() {
  std::array<int, kNumCodePoints> bytes{};
  bytes.fill(kNoByte);
  size_t next = 0x100;
  for (int byte = 0; byte < 256; ++byte) {
    bytes[StandsForItself(byte) ? static_cast<size_t>(byte) : next++] = byte;
  }
  return bytes;
}

constexpr std::array<int, kNumCodePoints> kByteOfCodePoint = MakeByteOfCodePoint();

}  // namespace

std::optional<std::string> BytesOfToken(std::string_view token) {
  std::string bytes;
  while (!token.empty()) {
    const size_t length = Utf8Length(token);
    if (length != 1 && length != 2) return std::nullopt;
    const auto first = static_cast<uint8_t>(token[0]);
    const size_t code_point =
        length == 1 ? first : ((first & 0x1Fu) << 6) | (static_cast<uint8_t>(token[1]) & 0x3Fu);
    if (code_point >= kNumCodePoints || kByteOfCodePoint[code_point] == kNoByte) {
      return std::nullopt;
    }
    bytes += static_cast<char>(kByteOfCodePoint[code_point]);
    token.remove_prefix(length);
  }
  return bytes;
}

}  // namespace tessera::engine
