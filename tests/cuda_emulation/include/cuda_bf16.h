// Stands in for CUDA's header of this name where CUDA sources are compiled for the host.
#pragma once

#include <bit>
#include <cstdint>

#include "tests/cuda_emulation/device/vector_types.h"

// The upper half of a float. Arithmetic is done in float: what CUDA rounds to bf16 after every
// operation would pass for it here, so the operators between two bf16 numbers are deleted.
struct __nv_bfloat16 {
  unsigned short __x;

  __nv_bfloat16() = default;
  // Rounds to nearest, ties to even; every NaN becomes 0x7fff, as on the device.
  constexpr __nv_bfloat16(float value) : __x(Round(std::bit_cast<uint32_t>(value))) {}
  constexpr operator float() const {
    return std::bit_cast<float>(static_cast<uint32_t>(__x) << 16);
  }

 private:
  static constexpr unsigned short Round(uint32_t bits) {
    if ((bits & 0x7fffffffu) > 0x7f800000u) return 0x7fff;
    return static_cast<unsigned short>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
  }
};
void operator+(__nv_bfloat16, __nv_bfloat16) = delete;
void operator-(__nv_bfloat16, __nv_bfloat16) = delete;
void operator*(__nv_bfloat16, __nv_bfloat16) = delete;
void operator/(__nv_bfloat16, __nv_bfloat16) = delete;

struct alignas(4) __nv_bfloat162 {
  __nv_bfloat16 x, y;
};
using nv_bfloat16 = __nv_bfloat16;
using nv_bfloat162 = __nv_bfloat162;

constexpr __nv_bfloat16 __float2bfloat16(float value) { return value; }
constexpr __nv_bfloat16 __float2bfloat16_rn(float value) { return value; }
constexpr float __bfloat162float(__nv_bfloat16 value) { return value; }
constexpr __nv_bfloat162 __floats2bfloat162_rn(float x, float y) { return {x, y}; }
constexpr float2 __bfloat1622float2(__nv_bfloat162 pair) { return {pair.x, pair.y}; }
