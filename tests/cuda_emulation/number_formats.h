// fp32, bf16 and fp16 as the library doubles read and write them: exact to fp32, back rounded to
// nearest even. Written apart from the emulated cuda_bf16.h and cuda_fp16.h, whose tests compare
// kernels with what the doubles compute.
#pragma once

#include <bit>
#include <cstdint>

namespace tessera::cuda_emulation {

enum class NumberFormat { kFloat32, kBFloat16, kFloat16 };

constexpr int64_t SizeBytes(NumberFormat format) {
  return format == NumberFormat::kFloat32 ? 4 : 2;
}

inline float FromBFloat16(uint16_t bits) {
  return std::bit_cast<float>(static_cast<uint32_t>(bits) << 16);
}

inline uint16_t ToBFloat16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t rounded = bits + 0x7FFF + ((bits >> 16) & 1);
  const bool is_nan = (bits & 0x7FFFFFFF) > 0x7F800000;  // rounding could carry it to infinity
  return static_cast<uint16_t>((is_nan ? bits | 0x00400000 : rounded) >> 16);
}

inline float FromFloat16(uint16_t bits) {
  return static_cast<float>(std::bit_cast<_Float16>(bits));
}

inline uint16_t ToFloat16(float value) {
  return std::bit_cast<uint16_t>(static_cast<_Float16>(value));
}

// Nearest even with 10 explicit bits of mantissa: how tensor cores take fp32 operands as TF32.
inline float RoundToTf32(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7F800000) == 0x7F800000) return value;  // infinity, NaN
  return std::bit_cast<float>((bits + 0xFFF + ((bits >> 13) & 1)) & 0xFFFFE000);
}

// `count` consecutive numbers from or to `format`.
inline void LoadNumbers(const void* from, NumberFormat format, int64_t count, float* to) {
  const auto* halves = static_cast<const uint16_t*>(from);
  switch (format) {
    case NumberFormat::kFloat32:
      for (int64_t i = 0; i < count; ++i) to[i] = static_cast<const float*>(from)[i];
      return;
    case NumberFormat::kBFloat16:
      for (int64_t i = 0; i < count; ++i) to[i] = FromBFloat16(halves[i]);
      return;
    case NumberFormat::kFloat16:
      for (int64_t i = 0; i < count; ++i) to[i] = FromFloat16(halves[i]);
      return;
  }
}

inline void StoreNumbers(const float* from, NumberFormat format, int64_t count, void* to) {
  auto* halves = static_cast<uint16_t*>(to);
  switch (format) {
    case NumberFormat::kFloat32:
      for (int64_t i = 0; i < count; ++i) static_cast<float*>(to)[i] = from[i];
      return;
    case NumberFormat::kBFloat16:
      for (int64_t i = 0; i < count; ++i) halves[i] = ToBFloat16(from[i]);
      return;
    case NumberFormat::kFloat16:
      for (int64_t i = 0; i < count; ++i) halves[i] = ToFloat16(from[i]);
      return;
  }
}

}  // namespace tessera::cuda_emulation
