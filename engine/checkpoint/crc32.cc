#include "engine/checkpoint/crc32.h"

#include <array>
#include <bit>
#include <cstring>

namespace tessera::engine {
namespace {

static_assert(std::endian::native == std::endian::little, "tables below read little-endian words");

constexpr uint32_t kReflectedPolynomial = 0xEDB88320u;
constexpr int kBytesPerRound = 8;

using Tables = std::array<std::array<uint32_t, 256>, kBytesPerRound>;

// tables[k][b]: what byte b does to the checksum when k more bytes follow it. Eight tables let one
// round take eight bytes at once.
constexpr Tables MakeTables() {
  Tables tables = {};
  for (uint32_t b = 0; b < 256; ++b) {
    uint32_t crc = b;
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1) ? kReflectedPolynomial : 0);
    tables[0][b] = crc;
  }
  for (int k = 1; k < kBytesPerRound; ++k) {
    for (uint32_t b = 0; b < 256; ++b) {
      const uint32_t before = tables[k - 1][b];
      tables[k][b] = (before >> 8) ^ tables[0][before & 0xFF];
    }
  }
  return tables;
}

constexpr Tables kTables = MakeTables();

}  // namespace

uint32_t Crc32(std::span<const std::byte> bytes, uint32_t previous) {
  uint32_t crc = ~previous;
  const std::byte* at = bytes.data();
  size_t left = bytes.size();
  for (; left >= kBytesPerRound; left -= kBytesPerRound, at += kBytesPerRound) {
    uint64_t word;
    std::memcpy(&word, at, sizeof word);
    word ^= crc;
    crc = 0;
    for (int k = 0; k < kBytesPerRound; ++k) {
      crc ^= kTables[kBytesPerRound - 1 - k][(word >> (8 * k)) & 0xFF];
    }
  }
  for (; left > 0; --left, ++at) {
    crc = (crc >> 8) ^ kTables[0][(crc ^ static_cast<uint32_t>(*at)) & 0xFF];
  }
  return ~crc;
}

uint32_t Crc32(const std::string& text) {
  return Crc32(std::as_bytes(std::span(text.data(), text.size())));
}

std::string Crc32Text(uint32_t crc32) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string text(8, '0');
  for (int i = 0; i < 8; ++i) text[i] = kDigits[(crc32 >> (28 - 4 * i)) & 0xF];
  return text;
}

}  // namespace tessera::engine
