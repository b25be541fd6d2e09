// Stands in for CUDA's header of this name where CUDA sources are compiled for the host.
#pragma once

#include <bit>

#include "tests/cuda_emulation/device/vector_types.h"

// IEEE binary16. Arithmetic is done in float, see cuda_bf16.h.
struct __half {
  unsigned short __x;

  __half() = default;
  // Rounds to nearest, ties to even; what is too large becomes infinite.
  __half(float value) : __x(std::bit_cast<unsigned short>(static_cast<_Float16>(value))) {}
  operator float() const { return static_cast<float>(std::bit_cast<_Float16>(__x)); }
};
void operator+(__half, __half) = delete;
void operator-(__half, __half) = delete;
void operator*(__half, __half) = delete;
void operator/(__half, __half) = delete;

struct alignas(4) __half2 {
  __half x, y;
};
using half = __half;
using half2 = __half2;

inline __half __float2half(float value) { return value; }
inline __half __float2half_rn(float value) { return value; }
inline float __half2float(__half value) { return value; }
inline __half2 __floats2half2_rn(float x, float y) { return {x, y}; }
inline float2 __half22float2(__half2 pair) { return {pair.x, pair.y}; }
