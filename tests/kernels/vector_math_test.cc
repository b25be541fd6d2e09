#include "kernels/cpu/vector_math.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "tests/kernels/reference.h"

namespace tessera::kernels {
namespace {

constexpr double kRelativeTolerance = 3e-7;
constexpr float kExpInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(VectorMathTest, ExpIsWithinThreeTenMillionths) {
  for (double x = -87.3; x < 88.3; x += 0.00131) {
    const auto argument = static_cast<float>(x);
    const double expected = std::exp(static_cast<double>(argument));
    ASSERT_NEAR(Exp(argument) / expected, 1.0, kRelativeTolerance) << "x = " << argument;
  }
}

TEST(VectorMathTest, ExpHasTheRightLimits) {
  EXPECT_EQ(Exp(0), 1.0F);
  EXPECT_EQ(Exp(-0.0F), 1.0F);
  EXPECT_EQ(Exp(-88), 0.0F);
  EXPECT_EQ(Exp(-1e30F), 0.0F);
  EXPECT_EQ(Exp(-kExpInfinity), 0.0F);
  EXPECT_EQ(Exp(89), kExpInfinity);
  EXPECT_EQ(Exp(kExpInfinity), kExpInfinity);
  EXPECT_TRUE(std::isnan(Exp(kNan)));
}

TEST(VectorMathTest, SigmoidIsRelativelyAccurateOnBothSides) {
  for (double x = -80; x < 80; x += 0.0137) {
    const auto argument = static_cast<float>(x);
    const double expected = 1.0 / (1.0 + std::exp(-static_cast<double>(argument)));
    ASSERT_NEAR(Sigmoid(argument) / expected, 1.0, kRelativeTolerance) << "x = " << argument;
  }
  EXPECT_EQ(Sigmoid(-kExpInfinity), 0.0F);
  EXPECT_EQ(Sigmoid(kExpInfinity), 1.0F);
}

// The argument 2u of the sigmoid is rounded: its error times the slope adds to the result's own.
TEST(VectorMathTest, GeluAndItsDerivativeMatchTheTanhForm) {
  for (double x = -12; x < 12; x += 0.00173) {
    const auto argument = static_cast<float>(x);
    ASSERT_NEAR(Gelu(argument), reference::Gelu(argument), 3e-7 * std::max(1.0, std::abs(x)))
        << "x = " << argument;
    ASSERT_NEAR(GeluGrad(argument), reference::GeluGrad(argument), 1e-6) << "x = " << argument;
  }
  EXPECT_EQ(Gelu(-100), 0.0F);
  EXPECT_EQ(Gelu(100), 100.0F);
  EXPECT_NEAR(GeluGrad(-100), 0.0F, 1e-20);
  EXPECT_EQ(GeluGrad(100), 1.0F);
  EXPECT_TRUE(std::isnan(Gelu(kNan)));
  EXPECT_TRUE(std::isnan(GeluGrad(kNan)));
}

}  // namespace
}  // namespace tessera::kernels
