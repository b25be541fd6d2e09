// Points against each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "planner/what_if/frontier.h"
#include "tests/planner/what_if_points.h"

namespace tessera::planner {
namespace {

using ::testing::ElementsAre;

TEST(WhatIfFrontierTest, KeepsWhatNoOtherPointBeatsInDaysAndCost) {
  // Cost goes with devices x step time x price: 8, 12, 16 (slower and dearer than the second), 6.
  const auto points = MakeHandPoints({{.num_devices = 8, .step_time_s = 1, .price_per_hour = 1},
                                      {.num_devices = 16, .step_time_s = 0.75, .price_per_hour = 1},
                                      {.num_devices = 20, .step_time_s = 0.8, .price_per_hour = 1},
                                      {.num_devices = 4, .step_time_s = 1.5, .price_per_hour = 1}},
                                     TermsWithoutFailures(1e9));
  EXPECT_THAT(FrontierOf(points), ElementsAre(1, 0, 3));
}

TEST(WhatIfFrontierTest, NoTwoOfItDominateEachOtherAndAllElseIsDominated) {
  std::mt19937 random(3);
  std::uniform_real_distribution<double> step_s(0.5, 2);
  std::vector<HandPoint> hands;
  for (int i = 0; i < 200; ++i) {
    hands.push_back({.num_devices = 8 + 8 * (i % 20),
                     .step_time_s = step_s(random),
                     .price_per_hour = 1 + step_s(random)});
  }
  const auto points = MakeHandPoints(hands, TermsWithoutFailures(1e9));
  const std::vector<int> frontier = FrontierOf(points);
  const auto dominates = [&](int a, int b) {
    const RunFigures& first = *points[a].run;
    const RunFigures& second = *points[b].run;
    return first.wall_s <= second.wall_s && *first.cost_usd <= *second.cost_usd &&
           (first.wall_s < second.wall_s || *first.cost_usd < *second.cost_usd);
  };
  for (int id = 0; id < 200; ++id) {
    const bool is_on = std::find(frontier.begin(), frontier.end(), id) != frontier.end();
    bool is_dominated = false;
    for (const int other : frontier) is_dominated = is_dominated || dominates(other, id);
    EXPECT_NE(is_on, is_dominated) << id;
  }
}

TEST(WhatIfFrontierTest, DeviceHoursStandForCostWhereAPriceIsMissing) {
  const auto points = MakeHandPoints({{.num_devices = 8, .step_time_s = 1, .price_per_hour = 100},
                                      {.cluster = "b", .num_devices = 16, .step_time_s = 1}},
                                     TermsWithoutFailures(1e9));
  EXPECT_THAT(FrontierOf(points), ElementsAre(0));
}

TEST(WhatIfFrontierTest, EfficiencyIsThroughputADeviceAgainstTheFewest) {
  const auto points =
      MakeHandPoints({{.num_devices = 8, .global_batch_size = 64, .step_time_s = 1},
                      {.num_devices = 16, .global_batch_size = 64, .step_time_s = 0.625},
                      {.num_devices = 16, .global_batch_size = 128, .step_time_s = 1.25}},
                     RunTerms());
  const std::vector<ScalingCurve> curves = ScalingsOf(points);
  ASSERT_EQ(curves.size(), 2U);
  EXPECT_FALSE(curves[0].is_weak);
  ASSERT_EQ(curves[0].steps.size(), 2U);
  EXPECT_DOUBLE_EQ(curves[0].steps[0].efficiency_share, 1);
  EXPECT_DOUBLE_EQ(curves[0].steps[1].efficiency_share, 0.8);  // 1 / 0.625 / 2
  EXPECT_TRUE(curves[1].is_weak);
  EXPECT_DOUBLE_EQ(curves[1].steps[1].efficiency_share, 0.8);  // 2 / 1.25 / 2
  EXPECT_EQ(curves[1].steps[1].point, 2);
}

TEST(WhatIfFrontierTest, ACrossoverLiesBetweenTheCountsWhoseMeshesDiffer) {
  const auto points = MakeHandPoints({{.num_devices = 8, .tensor_parallel_size = 1},
                                      {.num_devices = 32, .tensor_parallel_size = 4},
                                      {.num_devices = 16, .tensor_parallel_size = 1}},
                                     RunTerms());
  const std::vector<Crossover> crossovers = DeviceCrossovers(points);
  ASSERT_EQ(crossovers.size(), 1U);
  EXPECT_EQ(crossovers[0].from, 16);
  EXPECT_EQ(crossovers[0].to, 32);
}

}  // namespace
}  // namespace tessera::planner
