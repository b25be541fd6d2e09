// The arithmetic that CUDA adds to the C++ library. The fast forms (__expf) round as the exact ones
// here, a GPU's do not: tests of kernels need tolerances that cover both.
#pragma once

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <numbers>

using std::max;
using std::min;

inline unsigned __float_as_uint(float value) { return std::bit_cast<unsigned>(value); }
inline float __uint_as_float(unsigned bits) { return std::bit_cast<float>(bits); }
inline int __float_as_int(float value) { return std::bit_cast<int>(value); }
inline float __int_as_float(int bits) { return std::bit_cast<float>(bits); }

// glibc declares these two (as names of its own for expf and logf).
inline float __expf(float x) noexcept { return expf(x); }
inline float __logf(float x) noexcept { return logf(x); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __frcp_rn(float x) { return 1.0f / x; }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }

// Arguments in half turns: reduced first, so that multiples of a quarter turn are exact.
inline void sincospi(double x, double* sine, double* cosine) {
  const double reduced = x - 2.0 * rint(0.5 * x);  // in [-1, 1]
  const double quarter_turns = rint(2.0 * reduced);
  const double angle = (reduced - 0.5 * quarter_turns) * std::numbers::pi;
  const double s = sin(angle);
  const double c = cos(angle);
  switch (static_cast<int>(quarter_turns) & 3) {
    case 0:
      *sine = s, *cosine = c;
      break;
    case 1:
      *sine = c, *cosine = -s;
      break;
    case 2:
      *sine = -s, *cosine = -c;
      break;
    default:
      *sine = -c, *cosine = s;
      break;
  }
}
inline double sinpi(double x) {
  double sine, cosine;
  sincospi(x, &sine, &cosine);
  return sine;
}
inline double cospi(double x) {
  double sine, cosine;
  sincospi(x, &sine, &cosine);
  return cosine;
}
inline void sincospif(float x, float* sine, float* cosine) {
  double s, c;
  sincospi(x, &s, &c);
  *sine = static_cast<float>(s);
  *cosine = static_cast<float>(c);
}
inline float sinpif(float x) { return static_cast<float>(sinpi(x)); }
inline float cospif(float x) { return static_cast<float>(cospi(x)); }

inline unsigned __umulhi(unsigned a, unsigned b) {
  return static_cast<unsigned>((static_cast<uint64_t>(a) * b) >> 32);
}
// The product of the low 24 bits, taken as signed numbers.
inline int __mul24(int a, int b) {
  const auto low = [](int x) {
    return static_cast<int64_t>(static_cast<int>(static_cast<unsigned>(x) << 8) >> 8);
  };
  return static_cast<int>(low(a) * low(b));
}
inline int __clz(int bits) { return std::countl_zero(static_cast<unsigned>(bits)); }
inline int __popc(unsigned bits) { return std::popcount(bits); }
inline int __ffs(int bits) { return __builtin_ffs(bits); }

template <class T>
T __ldg(const T* address) {
  return *address;
}
