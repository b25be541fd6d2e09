// Passes over 16-bit arrays without a shape.
#include "tests/kernels/half_test.h"

namespace tessera::kernels::testing {
namespace {

constexpr int64_t kHalfElementCounts[] = {1, 7, 2049, 50001};

class HalfElementsTest : public HalfTest {};

// fp32 numbers of all sizes, ties among them, and what is no number.
TEST_P(HalfElementsTest, CastsRoundToNearestEvenAndKeepWhatIsNoNumber) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  for (const int64_t n : kHalfElementCounts) {
    Doubles values = RandomFloats(n, 1, -4, 4);
    for (int64_t i = 0; i < n; ++i)
      values[i] = std::ldexp(values[i], static_cast<int>(i % 30) - 20);
    if (n > 6) {
      const double unit = dtype() == DType::kBFloat16 ? std::ldexp(1, -7) : std::ldexp(1, -10);
      values[0] = 1 + unit / 2;      // a tie: down, to even
      values[1] = 1 + unit * 3 / 2;  // a tie: up, to even
      values[2] = kInfinity;
      values[3] = -kInfinity;
      values[4] = std::nan("");
      values[5] = -0.0;
    }
    const TypedArray source = Float(values), narrow = UnsetHalf(n), wide = UnsetFloat(n);
    backend().Cast(source, narrow, n);
    backend().Cast(narrow, wide, n);
    const Doubles found = wide.Values();
    for (int64_t i = 0; i < n; ++i) {
      if (std::isnan(values[i])) {
        ASSERT_TRUE(std::isnan(found[i])) << i;
      } else {
        ASSERT_EQ(found[i], Rounded(values[i])) << i << " of " << values[i];
      }
    }
    if (n > 6) {
      EXPECT_EQ(found[0], 1);
      EXPECT_EQ(found[1], 1 + 2 * (dtype() == DType::kBFloat16 ? 0x1p-7 : 0x1p-10));
      EXPECT_TRUE(std::signbit(found[5]));
    }
  }
}

// Every 16-bit pattern: what is represented comes back bit by bit, through fp32 or copied.
TEST_P(HalfElementsTest, NumbersOfTheTypeSurviveTheWayThroughFloatsAndCopies) {
  constexpr int64_t kNumPatterns = 65536;
  Doubles values(kNumPatterns);
  for (int64_t i = 0; i < kNumPatterns; ++i) {
    const double value = FromBits(dtype(), static_cast<uint32_t>(i));
    if (!std::isnan(value)) values[i] = value;
  }
  const TypedArray source = Half(values), copy = UnsetHalf(kNumPatterns);
  const TypedArray wide = UnsetFloat(kNumPatterns), again = UnsetHalf(kNumPatterns);
  backend().Copy(source, copy, kNumPatterns);
  EXPECT_EQ(copy.Values(), values);
  backend().Cast(source, wide, kNumPatterns);
  EXPECT_EQ(wide.Values(), values);
  backend().Cast(wide, again, kNumPatterns);
  EXPECT_EQ(again.Values(), values);
}

TEST_P(HalfElementsTest, PassesRoundOnceAndGradientsMayAddUpInFloats) {
  for (const int64_t n : kHalfElementCounts) {
    const Doubles x = Random(n, 1), y = Random(n, 2);
    Doubles sum(n), rounded_sum(n), scaled(n);
    for (int64_t i = 0; i < n; ++i) {
      sum[i] = static_cast<float>(x[i]) + static_cast<float>(y[i]);
      rounded_sum[i] = Rounded(sum[i]);
      scaled[i] = Rounded(static_cast<float>(x[i]) * 0.3F);
    }
    const TypedArray device_x = Half(x), half_sum = Half(y), float_sum = Float(y);
    backend().Add(device_x, half_sum, n);
    EXPECT_EQ(half_sum.Values(), rounded_sum);
    backend().Add(device_x, float_sum, n);
    EXPECT_EQ(float_sum.Values(), sum);
    backend().Scale(device_x, n, 0.3F);
    EXPECT_EQ(device_x.Values(), scaled);
    backend().Copy(half_sum, device_x, n);
    EXPECT_EQ(device_x.Values(), rounded_sum);
    backend().Fill(device_x, n, 0.7F);
    EXPECT_EQ(device_x.Values(), Doubles(n, Rounded(0.7)));
  }
}

TEST_P(HalfElementsTest, BlocksAddUpInFloats) {
  constexpr int64_t kNumBlocks = 4;
  for (const int64_t n : kHalfElementCounts) {
    const Doubles x = Random(kNumBlocks * n, 1);
    Doubles expected(n);
    for (int64_t i = 0; i < n; ++i) {
      auto sum = static_cast<float>(x[i]);
      for (int64_t b = 1; b < kNumBlocks; ++b) sum += static_cast<float>(x[b * n + i]);
      expected[i] = sum;
    }
    const TypedArray device_x = Half(x), y = UnsetFloat(n);
    backend().SumBlocks({.x = device_x, .y = y, .n = n, .num_blocks = kNumBlocks});
    EXPECT_EQ(y.Values(), expected);
    backend().SumBlocks({.x = device_x, .y = device_x, .n = n, .num_blocks = kNumBlocks});
    Doubles in_place = device_x.Values();
    in_place.resize(n);
    for (double& value : expected) value = Rounded(value);
    EXPECT_EQ(in_place, expected);
  }
}

// 257 is no bf16 number: a sum kept in the type would stay at 256.
TEST_P(HalfElementsTest, OnesAddUpBeyondTheIntegersOfTheType) {
  const TypedArray ones = Half(Doubles(257, 1)), sum = UnsetFloat(1);
  backend().SumBlocks({.x = ones, .y = sum, .n = 1, .num_blocks = 257});
  EXPECT_EQ(sum.Values(), Doubles({257}));
}

TEST_P(HalfElementsTest, SumsOfSquaresAreExactToFloats) {
  for (const int64_t n : kHalfElementCounts) {
    const Doubles x = Random(n, 1);
    double expected = 1.5, sum = 1.5;
    for (const double value : x) expected += value * value;
    const TypedArray device_x = Half(x);
    backend().SumOfSquares({.x = device_x, .sum = &sum, .n = n});
    EXPECT_NEAR(sum, expected, 1e-12 * expected);
  }
}

// The master weights move as fp32 weights do, by steps that the 16-bit ones would not show.
TEST_P(HalfElementsTest, AdamWMovesTheMasterWeightsAndRoundsTheParameters) {
  for (const int64_t n : kHalfElementCounts) {
    const Doubles weights = RandomFloats(n, 1), grad = RandomFloats(n, 2);
    const Doubles m = RandomFloats(n, 3), v = RandomFloats(n, 4, 0, 1);
    const TypedArray param = UnsetHalf(n), master = Float(weights), plain = Float(weights);
    const TypedArray device_grad = Float(grad);
    const TypedArray master_m = Float(m), master_v = Float(v), plain_m = Float(m);
    const TypedArray plain_v = Float(v);
    AdamWArgs args = {.param = param,
                      .master = master,
                      .grad = device_grad,
                      .m = master_m,
                      .v = master_v,
                      .n = n,
                      .lr = 1e-4F,
                      .beta1 = 0.9F,
                      .beta2 = 0.95F,
                      .epsilon = 1e-8F,
                      .weight_decay = 0.1F,
                      .grad_scale = 0.5F,
                      .step = 3};
    backend().AdamW(args);
    args.param = plain;
    args.master = nullptr;
    args.m = plain_m;
    args.v = plain_v;
    backend().AdamW(args);
    Doubles expected = plain.Values();
    EXPECT_NE(expected, weights);
    EXPECT_EQ(master.Values(), expected);
    EXPECT_EQ(master_m.Values(), plain_m.Values());
    EXPECT_EQ(master_v.Values(), plain_v.Values());
    for (double& value : expected) value = Rounded(value);
    EXPECT_EQ(param.Values(), expected);
  }
}

TESSERA_HALF_SUITE(HalfElementsTest);

}  // namespace
}  // namespace tessera::kernels::testing
