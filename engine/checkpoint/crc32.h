// The checksum of checkpoints: CRC-32 of IEEE 802.3 (polynomial 0x04C11DB7, reflected), the one of
// zlib and gzip, so that other tools can check our files.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tessera::engine {

// Checksum of `bytes` after others whose checksum is `previous` (0: none).
uint32_t Crc32(std::span<const std::byte> bytes, uint32_t previous = 0);
uint32_t Crc32(const std::string& text);

// Eight lowercase hexadecimal digits.
std::string Crc32Text(uint32_t crc32);

}  // namespace tessera::engine
