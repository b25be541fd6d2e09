// Functions of one float that the compiler turns into vector code when a loop calls them. Relative
// error below 3e-7 wherever the result is a normal number; NaN in gives NaN out.
#pragma once

#include <bit>
#include <cstdint>

namespace tessera::kernels {

// e^x: 0 below -87.33 (where the result would be subnormal), infinity above 88.37.
// x = n ln 2 + r with |r| <= ln(2) / 2; e^r by a polynomial fitted to relative error 4e-9.
inline float Exp(float x) {
  constexpr float kLargest = 88.37F;
  constexpr float kSmallest = -87.33F;
  constexpr float kLog2OfE = 1.44269504F;
  // ln 2 in two parts; the first has few bits, so that n * kLn2High is exact.
  constexpr float kLn2High = 0.693359375F;
  constexpr float kLn2Low = -2.12194440e-4F;
  // 1.5 * 2^23: adding it leaves the nearest integer in the low bits of the mantissa.
  constexpr float kRounder = 12582912.0F;
  const float low_clamped = x < kSmallest ? kSmallest : x;
  const float clamped = low_clamped > kLargest ? kLargest : low_clamped;
  const float shifted = clamped * kLog2OfE + kRounder;
  const float n = shifted - kRounder;
  const float r = (clamped - n * kLn2High) - n * kLn2Low;
  float p = 0.001381459856F;
  p = p * r + 0.008368716879F;
  p = p * r + 0.04166838805F;
  p = p * r + 0.1666652063F;
  p = p * r + 0.4999999345F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  const uint32_t power_bits = (std::bit_cast<uint32_t>(shifted) << 23) + 0x3f800000U;
  const float result = p * std::bit_cast<float>(power_bits);
  const float not_small = x < kSmallest ? 0.0F : result;
  return x > kLargest ? __builtin_inff() : not_small;
}

// 1 / (1 + e^-x).
inline float Sigmoid(float x) { return 1.0F / (1.0F + Exp(-x)); }

// GELU by its tanh approximation, 0.5 x (1 + tanh(u)), u = sqrt(2/pi) (x + 0.044715 x^3)
// (Hendrycks & Gimpel 2016). Written as x * sigmoid(2u), which does not cancel for negative x.
inline constexpr float kGeluTwiceScale = 1.5957691216F;  // 2 sqrt(2/pi)
inline constexpr float kGeluCubic = 0.044715F;

inline float Gelu(float x) { return x * Sigmoid(kGeluTwiceScale * (x + kGeluCubic * x * x * x)); }

// sigmoid(x) and 1 - sigmoid(x), the latter without cancellation.
struct SigmoidAndComplement {
  float sigmoid, complement;
};

inline SigmoidAndComplement SigmoidPair(float x) {
  // Below this e^-x nears infinity, and infinity times a sigmoid of 0 is no number.
  constexpr float kSmallest = -80.0F;
  const float power = Exp(x < kSmallest ? -kSmallest : -x);
  const float sigmoid = 1.0F / (1.0F + power);
  return {sigmoid, power * sigmoid};
}

// Derivative of Gelu.
inline float GeluGrad(float x) {
  const auto [sigmoid, complement] = SigmoidPair(kGeluTwiceScale * (x + kGeluCubic * x * x * x));
  const float slope = kGeluTwiceScale * (1.0F + 3.0F * kGeluCubic * x * x);
  return sigmoid + x * sigmoid * complement * slope;
}

}  // namespace tessera::kernels
