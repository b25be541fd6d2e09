// Useful time under failures, against the closed forms of Young and Daly and a run played out.
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "planner/what_if/goodput.h"

namespace tessera::planner {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

double SumOf(const Goodput& goodput) {
  return goodput.useful_share + goodput.checkpoint_share + goodput.rework_share +
         goodput.restart_share;
}

TEST(WhatIfGoodputTest, YoungsIntervalIsTheRootOfTwiceCheckpointTimesMtbf) {
  EXPECT_DOUBLE_EQ(YoungIntervalS(50, 10'000), 1000);  // sqrt(2 * 50 * 10000)
}

TEST(WhatIfGoodputTest, DalysIntervalTendsToYoungsForShortCheckpoints) {
  const double mtbf_s = 1e6;
  for (const double checkpoint_s : {1.0, 0.01}) {
    const double young_s = YoungIntervalS(checkpoint_s, mtbf_s);
    // The next term of the series is a third of sqrt(C / 2M).
    const double bound = std::sqrt(checkpoint_s / (2 * mtbf_s)) * young_s + checkpoint_s;
    EXPECT_NEAR(DalyIntervalS(checkpoint_s, mtbf_s), young_s, bound);
  }
  EXPECT_DOUBLE_EQ(DalyIntervalS(300, 100), 100);  // C >= 2 M
  EXPECT_EQ(DalyIntervalS(300, kInfinity), kInfinity);
}

TEST(WhatIfGoodputTest, DalysIntervalLosesLeast) {
  const FailureTerms terms{.mtbf_s = 3600, .checkpoint_s = 60, .restart_s = 300};
  const double best = BestGoodput(terms).useful_share;
  const double interval_s = DalyIntervalS(terms.checkpoint_s, terms.mtbf_s);
  // His estimate is within a thousandth of the true optimum here, so a wide step away loses.
  for (const double factor : {0.3, 0.7, 1.4, 3.0}) {
    EXPECT_LT(GoodputOf(terms, factor * interval_s).useful_share, best) << factor;
  }
}

TEST(WhatIfGoodputTest, SharesSumToOneAndNoneIsNegative) {
  for (const double mtbf_s : {10.0, 3600.0, 1e7, kInfinity}) {
    for (const double checkpoint_s : {0.0, 5.0, 600.0}) {
      for (const double restart_s : {0.0, 900.0}) {
        const Goodput goodput = BestGoodput({mtbf_s, checkpoint_s, restart_s});
        EXPECT_NEAR(SumOf(goodput), 1, 1e-12) << mtbf_s << " " << checkpoint_s;
        EXPECT_GE(goodput.useful_share, 0);
        EXPECT_GE(goodput.checkpoint_share, 0);
        EXPECT_GE(goodput.rework_share, -1e-15);
        EXPECT_GE(goodput.restart_share, 0);
      }
    }
  }
}

TEST(WhatIfGoodputTest, FallsAsFailuresRiseAndIsOneWithoutThem) {
  double previous = 0;
  for (const double mtbf_s : {100.0, 1000.0, 1e4, 1e5, 1e6, 1e9}) {
    const double useful = BestGoodput({mtbf_s, 30, 300}).useful_share;
    EXPECT_GT(useful, previous) << mtbf_s;
    previous = useful;
  }
  EXPECT_EQ(BestGoodput({kInfinity, 30, 300}).useful_share, 1);
}

// Plays a run second by second of its events: work, checkpoint, failure, restart.
double PlayedUsefulShare(const FailureTerms& terms, double interval_s, int num_segments) {
  std::mt19937_64 random(1);
  std::exponential_distribution<double> life(1 / terms.mtbf_s);
  double wall_s = 0;
  double left_s = life(random);  // until the next failure
  for (int i = 0; i < num_segments; ++i) {
    const double segment_s = interval_s + terms.checkpoint_s;
    while (left_s < segment_s) {
      wall_s += left_s;
      left_s = life(random);
      while (left_s < terms.restart_s) {
        wall_s += left_s;
        left_s = life(random);
      }
      wall_s += terms.restart_s;
      left_s -= terms.restart_s;
    }
    wall_s += segment_s;
    left_s -= segment_s;
  }
  return interval_s * num_segments / wall_s;
}

TEST(WhatIfGoodputTest, AgreesWithARunPlayedOut) {
  const FailureTerms terms{.mtbf_s = 3600, .checkpoint_s = 60, .restart_s = 300};
  for (const double interval_s : {300.0, 700.0, 3000.0}) {
    // 200,000 segments: the mean is known within half a percent.
    EXPECT_NEAR(GoodputOf(terms, interval_s).useful_share,
                PlayedUsefulShare(terms, interval_s, 200'000), 0.005)
        << interval_s;
  }
}

}  // namespace
}  // namespace tessera::planner
