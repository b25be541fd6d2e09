// Conversions between fp32 and the two 16-bit float formats, in integer arithmetic that compilers
// turn into vector code. Rounding is to nearest even; subnormal numbers, infinities and NaN are
// kept. Values travel as their bits.
#pragma once

#include <bit>
#include <cstdint>

namespace tessera::base {

inline float BFloat16ToFloat(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

inline uint16_t FloatToBFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = bits + 0x7fff + ((bits >> 16) & 1);
  // Rounding could carry a NaN's payload into infinity or zero: keep it a quiet NaN.
  const uint32_t quiet_nan = bits | 0x00400000;
  const bool is_nan = (bits & 0x7fffffff) > 0x7f800000;
  return static_cast<uint16_t>((is_nan ? quiet_nan : rounded) >> 16);
}

inline float Float16ToFloat(uint16_t bits) {
  // The exponent's bias is 15 in fp16 and 127 in fp32: a product moves it, for subnormals too.
  const uint32_t shifted = static_cast<uint32_t>(bits & 0x7fff) << 13;
  const uint32_t finite = std::bit_cast<uint32_t>(std::bit_cast<float>(shifted) * 0x1p112f);
  const uint32_t magnitude = (bits & 0x7c00) == 0x7c00 ? shifted | 0x7f800000 : finite;
  return std::bit_cast<float>(magnitude | static_cast<uint32_t>(bits & 0x8000) << 16);
}

inline uint16_t FloatToFloat16(float value) {
  constexpr uint32_t kInfinity = 0x7f800000;
  constexpr uint32_t kSmallestOverflow = 0x477ff000;  // 65520 rounds to 2^16, past 65504
  constexpr uint32_t kSmallestNormal = 0x38800000;    // 2^-14
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t magnitude = bits & 0x7fffffff;
  const uint32_t normal = (magnitude - 0x38000000 + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  // The unit in the last place of 0.5f is 2^-24, fp16's subnormal step: the addition rounds.
  const float lifted = std::bit_cast<float>(magnitude) + 0.5f;
  const uint32_t subnormal = std::bit_cast<uint32_t>(lifted) - std::bit_cast<uint32_t>(0.5f);
  uint32_t result = magnitude < kSmallestNormal ? subnormal : normal;
  result = magnitude >= kSmallestOverflow ? 0x7c00 : result;
  result = magnitude > kInfinity ? 0x7e00 : result;
  return static_cast<uint16_t>(result | (bits >> 16 & 0x8000));
}

}  // namespace tessera::base
