// bf16, fp16 and TF32 of the doubles against the definition of rounding to nearest even, in double.
#include "tests/cuda_emulation/number_formats.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

namespace tessera::cuda_emulation {
namespace {

// The nearest number with `mantissa_bits` after the point and no exponent below `min_exponent`.
double RoundTo(double value, int mantissa_bits, int min_exponent) {
  if (value == 0) return value;
  const int exponent = std::max(std::ilogb(value), min_exponent);
  const double unit = std::ldexp(1.0, exponent - mantissa_bits);
  return std::nearbyint(value / unit) * unit;
}

TEST(NumberFormatsTest, RoundsToNearestEven) {
  std::mt19937 generator(1);
  std::uniform_real_distribution<float> mantissa(-2.0f, 2.0f);
  std::uniform_int_distribution<int> exponent(-30, 14);
  for (int i = 0; i < 200000; ++i) {
    const float value = std::ldexp(mantissa(generator), exponent(generator));
    ASSERT_EQ(FromBFloat16(ToBFloat16(value)), RoundTo(value, 7, -126)) << value;
    ASSERT_EQ(FromFloat16(ToFloat16(value)), RoundTo(value, 10, -14)) << value;
    ASSERT_EQ(RoundToTf32(value), RoundTo(value, 10, -126)) << value;
  }
}

TEST(NumberFormatsTest, TiesGoToTheEvenNeighbour) {
  EXPECT_EQ(FromBFloat16(ToBFloat16(1.0f + std::ldexp(1.0f, -8))), 1.0f);
  EXPECT_EQ(FromBFloat16(ToBFloat16(1.0f + 3 * std::ldexp(1.0f, -8))), 1.0f + std::ldexp(1.0f, -6));
  EXPECT_EQ(RoundToTf32(1.0f + std::ldexp(1.0f, -11)), 1.0f);
}

TEST(NumberFormatsTest, KeepsNanAndInfinity) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::bit_cast<float>(0x7F800001u);  // all but lost in the upper half
  EXPECT_TRUE(std::isnan(FromBFloat16(ToBFloat16(nan))));
  EXPECT_TRUE(std::isnan(FromFloat16(ToFloat16(nan))));
  EXPECT_TRUE(std::isnan(RoundToTf32(nan)));
  EXPECT_EQ(FromBFloat16(ToBFloat16(-infinity)), -infinity);
  EXPECT_EQ(FromFloat16(ToFloat16(1e6f)), infinity);
  EXPECT_EQ(FromBFloat16(ToBFloat16(3.4e38f)), infinity);
}

}  // namespace
}  // namespace tessera::cuda_emulation
