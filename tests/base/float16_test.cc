// The 16-bit conversions against their definition, worked out in double precision.
#include "cost_model/base/float16.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include "cost_model/base/philox.h"

namespace tessera::base {
namespace {

// IEEE 754 binary16: 1 sign, 5 exponent and 10 fraction bits.
double DecodeFloat16(uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const int fraction = bits & 1023;
  const double sign = (bits & 0x8000) != 0 ? -1 : 1;
  if (exponent == 31) {
    return fraction != 0 ? std::nan("") : sign * std::numeric_limits<double>::infinity();
  }
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

// Nearest (ties to even) number with `precision` significant bits, no finer than 2^min_quantum.
double RoundTo(double value, int precision, int min_quantum) {
  int exponent = 0;
  std::frexp(value, &exponent);
  const int quantum = std::max(exponent - precision, min_quantum);
  return std::ldexp(std::nearbyint(std::ldexp(value, -quantum)), quantum);
}

TEST(Float16Test, EveryFloat16DecodesToItsDefinitionAndBack) {
  for (uint32_t i = 0; i < 65536; ++i) {
    const auto bits = static_cast<uint16_t>(i);
    const double expected = DecodeFloat16(bits);
    const float decoded = Float16ToFloat(bits);
    if (std::isnan(expected)) {
      EXPECT_TRUE(std::isnan(decoded)) << i;
      EXPECT_TRUE(std::isnan(DecodeFloat16(FloatToFloat16(decoded)))) << i;
      continue;
    }
    ASSERT_EQ(decoded, expected) << i;
    ASSERT_EQ(std::signbit(decoded), std::signbit(expected)) << i;
    ASSERT_EQ(FloatToFloat16(decoded), bits) << i;
  }
}

TEST(Float16Test, FloatsRoundToTheNearestFloat16) {
  const PhiloxKey key = MakePhiloxKey(1, "floats");
  for (uint32_t i = 0; i < 200'000; ++i) {
    // Exponents 2^-30 to 2^17 cover zero, subnormal numbers and overflow; every fourth value has
    // short fractions, so that ties occur.
    const auto draw = Philox4x32({i}, key);
    const uint32_t fraction = i % 4 == 0 ? draw[0] & 0x7ff000 : draw[0] & 0x7fffff;
    const uint32_t exponent = 97 + draw[1] % 48;
    const float value = std::bit_cast<float>(draw[2] << 31 | exponent << 23 | fraction);
    const double rounded = RoundTo(value, 11, -24);
    const double expected =
        std::abs(rounded) > 65504
            ? std::copysign(std::numeric_limits<double>::infinity(), static_cast<double>(value))
            : rounded;
    ASSERT_EQ(DecodeFloat16(FloatToFloat16(value)), expected) << std::hexfloat << value;
  }
}

TEST(Float16Test, FloatsRoundToTheNearestBFloat16) {
  const PhiloxKey key = MakePhiloxKey(2, "floats");
  for (uint32_t i = 0; i < 200'000; ++i) {
    const auto draw = Philox4x32({i}, key);
    const uint32_t bits = i % 4 == 0 ? draw[0] & 0xffff8000 : draw[0];
    const float value = std::bit_cast<float>(bits);
    const float decoded = BFloat16ToFloat(FloatToBFloat16(value));
    if (std::isnan(value)) {
      ASSERT_TRUE(std::isnan(decoded)) << i;
      continue;
    }
    if (std::isinf(value)) {
      ASSERT_EQ(decoded, value);
      continue;
    }
    const double rounded = RoundTo(value, 8, -133);
    const double expected =
        std::abs(rounded) >= std::ldexp(1, 128)
            ? std::copysign(std::numeric_limits<double>::infinity(), static_cast<double>(value))
            : rounded;
    ASSERT_EQ(decoded, expected) << std::hexfloat << value;
  }
}

}  // namespace
}  // namespace tessera::base
