// The sweep itself: full searches, in order, on several workers, cancelled cleanly.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/what_if/device_search.h"
#include "planner/what_if/sweep.h"
#include "planner/what_if/what_if.h"
#include "tests/planner/test_requests.h"

namespace tessera::planner {
namespace {

using ::testing::HasSubstr;

std::vector<SweepPoint> SmallPoints() {
  std::vector<SweepPoint> points;
  for (const int num_devices : {8, 16, 32}) {
    for (const int64_t batch : {64, 128}) {
      points.push_back({MakeTestRequest("gpt3-1.3b", "dgx-a100-80gb", num_devices, batch), ""});
    }
  }
  return points;
}

TEST(WhatIfSweepTest, EachPointIsAFullSearchInItsPlaceWhateverTheWorkers) {
  const std::vector<SweepPoint> points = SmallPoints();
  for (const int num_workers : {1, 2, 5}) {
    const std::vector<PointResult> found =
        RunSweep(points, {.num_workers = num_workers, .stop = {}, .progress = {}});
    ASSERT_EQ(found.size(), points.size());
    for (size_t i = 0; i < points.size(); ++i) {
      SCOPED_TRACE(i);
      cost_model::JobCosts costs(points[i].request.job);
      const SearchResult alone = SearchBest(points[i].request, costs);
      ASSERT_TRUE(found[i].best);
      EXPECT_EQ(found[i].id, static_cast<int>(i));
      EXPECT_EQ(found[i].best->parallel, alone.rows.front().parallel);
      EXPECT_EQ(found[i].best->report.step_time_s, alone.rows.front().report.step_time_s);
      EXPECT_EQ(found[i].num_layouts, alone.num_layouts);
    }
  }
}

TEST(WhatIfSweepTest, TermsSumToTheStep) {
  for (const PointResult& found : RunSweep(SmallPoints(), {.num_workers = 2})) {
    const spec::StepReport& report = found.best->report;
    EXPECT_NEAR(report.time.Total(), report.step_time_s, 1e-9 * report.step_time_s);
  }
}

TEST(WhatIfSweepTest, AStoppedSweepKeepsWhatIsDone) {
  std::stop_source source;
  size_t num_shown = 0;
  const std::vector<PointResult> found =
      RunSweep(SmallPoints(), {.num_workers = 1,
                               .stop = source.get_token(),
                               .progress = [&](const SweepProgress& progress) {
                                 EXPECT_EQ(progress.num_done, ++num_shown);
                                 EXPECT_EQ(progress.num_points, 6U);
                                 if (progress.num_done == 2) source.request_stop();
                               }});
  size_t num_done = 0;
  for (const PointResult& point : found) {
    EXPECT_EQ(point.is_done, point.best.has_value());
    if (point.is_done) ++num_done;
  }
  EXPECT_EQ(num_done, 2U);
}

TEST(WhatIfSweepTest, APointWithoutAPriceHasAReason) {
  std::vector<SweepPoint> points = {{MakeTestRequest("gpt3-1.3b", "dgx-a100-80gb", 8, 64), ""},
                                    {MakeTestRequest("gpt3-1.3b", "dgx-a100-80gb", 8, 64), ""},
                                    {MakeTestRequest("gpt3-175b", "dgx-a100-80gb", 8, 64), ""}};
  points[0].request.job.training.precision = spec::Precision::kFp8;
  points[1].request.job.cluster.max_devices = 4;
  const std::vector<PointResult> found = RunSweep(points, {});
  EXPECT_FALSE(found[0].best);
  EXPECT_THAT(found[0].reason, HasSubstr("fp8"));
  EXPECT_THAT(found[1].reason, HasSubstr("4 devices"));
  EXPECT_THAT(found[2].reason, HasSubstr("memory"));  // 16 bytes x 175e9 on 8 devices
}

// Days that the best layout on so many devices takes; infinite where none fits.
double WallSeconds(SweepPoint point, int num_devices, const RunTerms& terms) {
  point.request.job.num_devices = num_devices;
  cost_model::JobCosts costs(point.request.job);
  const SearchResult search = SearchBest(point.request, costs);
  if (search.rows.empty()) return std::numeric_limits<double>::infinity();
  return EstimateRun(point.request.job, search.rows.front().report, terms).wall_s;
}

TEST(WhatIfSweepTest, TheFewestDevicesSufficeAndOneNodeFewerDoesNot) {
  const SweepPoint base{MakeTestRequest("gpt3-1.3b", "dgx-a100-80gb", 8, 512), ""};
  RunTerms terms = LoadRunTerms();
  terms.tokens = 300e9;
  for (const double days : {300.0, 30.0, 13.0}) {
    SCOPED_TRACE(days);
    terms.within_s = days * 86400;
    int fewest = kMostDevices;
    for (const SearchedPoint& point : SearchDevices({base}, terms, {.num_workers = 2})) {
      if (!point.found.best) continue;
      const cost_model::Job& job = point.asked.request.job;
      const RunFigures run = EstimateRun(job, point.found.best->report, terms);
      if (run.wall_s <= *terms.within_s) fewest = std::min(fewest, job.num_devices);
    }
    ASSERT_LT(fewest, kMostDevices);
    EXPECT_LE(WallSeconds(base, fewest, terms), *terms.within_s) << fewest;
    const int fewer = fewest > 8 ? fewest - 8 : fewest / 2;
    if (fewer > 0) {
      EXPECT_GT(WallSeconds(base, fewer, terms), *terms.within_s) << fewest;
    }
  }
}

TEST(WhatIfSweepTest, AnUnreachableDeadlineEndsTheSearch) {
  const SweepPoint base{MakeTestRequest("gpt3-1.3b", "dgx-a100-80gb", 8, 16), ""};
  RunTerms terms = LoadRunTerms();
  terms.tokens = 300e9;
  terms.within_s = 3600;
  for (const SearchedPoint& point : SearchDevices({base}, terms, {.num_workers = 2})) {
    if (!point.found.best) continue;
    EXPECT_GT(EstimateRun(point.asked.request.job, point.found.best->report, terms).wall_s, 3600);
  }
}

TEST(WhatIfSweepTest, AWholeResultHoldsItsIdentities) {
  WhatIfRequest request;
  request.points = SmallPoints();
  request.terms = LoadRunTerms();
  request.terms.tokens = 300e9;
  request.terms.price_per_device_hour["dgx-a100-80gb"] = 1.5;
  request.terms.within_s = 365.0 * 86400;
  const WhatIfResult result = RunWhatIf(request, {.num_workers = 2});
  ASSERT_TRUE(result.is_complete);
  for (const WhatIfPoint& point : result.points) {
    ASSERT_TRUE(point.run);
    EXPECT_NEAR(point.run->Days() * point.job().num_devices * 24, point.run->device_hours,
                1e-6 * point.run->device_hours);
    EXPECT_NEAR(point.run->effective_tokens_per_s * point.run->wall_s, 300e9, 1);
  }
  ASSERT_EQ(result.answers.size(), 1U);
  EXPECT_TRUE(result.answers[0].is_feasible);
  ASSERT_FALSE(result.margins.empty());
  for (const Margin& margin : result.margins) {
    EXPECT_EQ(margin.point, *result.answers[0].point);
    EXPECT_GE(margin.tokens_per_s_gain_share, -1e-9) << margin.change;
  }
  EXPECT_FALSE(result.summary.empty());
  EXPECT_FALSE(result.details.empty());
}

}  // namespace
}  // namespace tessera::planner
