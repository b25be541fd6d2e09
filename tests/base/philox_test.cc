#include "cost_model/base/philox.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <vector>

namespace tessera::base {
namespace {

using ::testing::ElementsAre;

// The known answers that Random123 publishes for philox4x32 with 10 rounds: counter and key of all
// zeros, of all ones, and of the digits of pi.
TEST(PhiloxTest, GivesThePublishedKnownAnswers) {
  EXPECT_THAT(Philox4x32({0, 0, 0, 0}, {0, 0}),
              ElementsAre(0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8));
  constexpr uint32_t kOnes = 0xffffffff;
  EXPECT_THAT(Philox4x32({kOnes, kOnes, kOnes, kOnes}, {kOnes, kOnes}),
              ElementsAre(0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd));
  EXPECT_THAT(
      Philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
      ElementsAre(0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1));
}

TEST(PhiloxTest, KeysDifferBySeedAndByName) {
  std::set<PhiloxKey> keys;
  for (const uint64_t seed : {0ull, 1ull, 2ull, 1ull << 32, 1ull << 63}) {
    for (const char* name : {"", "a", "b", "ab", "ba", "layers.0.mlp.up.weight"}) {
      keys.insert(MakePhiloxKey(seed, name));
    }
  }
  EXPECT_EQ(keys.size(), 30u);
}

// Every layout fills its own slice: any cut of the range must give the same numbers.
TEST(PhiloxTest, NormalsDependOnTheirIndexAlone) {
  const PhiloxKey key = MakePhiloxKey(1234, "layers.3.attention.q.weight");
  constexpr int64_t kNum = 103;
  std::vector<float> whole(kNum);
  FillNormal(key, 0, kNum, 1.0f, whole.data());
  for (int64_t i = 0; i < kNum; ++i) EXPECT_EQ(NormalAt(key, i), whole[i]) << i;
  for (const int64_t first : {0, 1, 2, 3, 4, 5, 50, 99}) {
    for (const int64_t n : {0, 1, 2, 3, 4, 5, 7, 40}) {
      if (first + n > kNum) continue;
      std::vector<float> part(n + 1, -7.0f);
      FillNormal(key, first, n, 1.0f, part.data());
      for (int64_t i = 0; i < n; ++i) EXPECT_EQ(part[i], whole[first + i]) << first << "+" << i;
      EXPECT_EQ(part[n], -7.0f) << "wrote past the end";
    }
  }
}

TEST(PhiloxTest, NormalsScaleWithTheStandardDeviation) {
  const PhiloxKey key = MakePhiloxKey(7, "w");
  std::vector<float> scaled(64);
  FillNormal(key, 1000, 64, 0.02f, scaled.data());
  for (int64_t i = 0; i < 64; ++i) EXPECT_EQ(scaled[i], NormalAt(key, 1000 + i) * 0.02f);
}

// Indices beyond 2^32 draw other numbers, not the same again.
TEST(PhiloxTest, IndicesBeyond32BitsAreDistinct) {
  const PhiloxKey key = MakePhiloxKey(7, "w");
  const uint64_t far = uint64_t{1} << 34;
  EXPECT_NE(NormalAt(key, 5), NormalAt(key, 5 + far));
  EXPECT_NE(UniformAt(key, 5), UniformAt(key, 5 + far));
  float value = 0;
  FillNormal(key, 5 + far, 1, 1.0f, &value);
  EXPECT_EQ(value, NormalAt(key, 5 + far));
}

// The first four powers of a normal draw have the means 0, 1, 0, 3 and the variances 1, 2, 15, 96.
// Five standard errors off is one in a million for a right generator.
TEST(PhiloxTest, NormalsHaveNormalMoments) {
  constexpr int64_t kNum = 400'000;
  std::vector<float> draws(kNum);
  FillNormal(MakePhiloxKey(42, "moments"), 0, kNum, 1.0f, draws.data());
  double power[5] = {};
  double lag_one = 0;
  int64_t num_within_one = 0;
  for (int64_t i = 0; i < kNum; ++i) {
    const double x = draws[i];
    for (int k = 1; k <= 4; ++k) power[k] += std::pow(x, k) / kNum;
    if (i > 0) lag_one += x * draws[i - 1] / kNum;
    num_within_one += std::abs(x) < 1;
  }
  const double error = 5 / std::sqrt(static_cast<double>(kNum));
  EXPECT_NEAR(power[1], 0, error);
  EXPECT_NEAR(power[2], 1, error * std::sqrt(2.0));
  EXPECT_NEAR(power[3], 0, error * std::sqrt(15.0));
  EXPECT_NEAR(power[4], 3, error * std::sqrt(96.0));
  EXPECT_NEAR(lag_one, 0, error);
  EXPECT_NEAR(static_cast<double>(num_within_one) / kNum, std::erf(std::sqrt(0.5)), error / 2);
}

TEST(PhiloxTest, UniformsFillTheUnitInterval) {
  const PhiloxKey key = MakePhiloxKey(42, "uniform");
  constexpr int kNum = 100'000;
  constexpr int kNumBins = 10;
  int bins[kNumBins] = {};
  for (int i = 0; i < kNum; ++i) {
    const double u = UniformAt(key, i);
    ASSERT_GE(u, 0.0);
    ASSERT_LT(u, 1.0);
    ++bins[static_cast<int>(u * kNumBins)];
  }
  const double expected = static_cast<double>(kNum) / kNumBins;
  for (const int count : bins) EXPECT_NEAR(count, expected, 5 * std::sqrt(expected));
}

}  // namespace
}  // namespace tessera::base
