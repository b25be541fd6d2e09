// A what-if as people read it.
#include "planner/what_if/what_if_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "planner/what_if/cluster_change.h"
#include "planner/what_if/run_text.h"
#include "planner/what_if/what_if_csv.h"
#include "tests/planner/what_if_points.h"

namespace tessera::planner {
namespace {

using ::testing::HasSubstr;

TEST(WhatIfTextTest, NumbersHaveTheUnitsThatPeopleUse) {
  EXPECT_EQ(DaysText(58.34), "58.3 days");
  EXPECT_EQ(DaysText(0.3), "7.2 hours");
  EXPECT_EQ(DaysText(1095), "3.0 years");
  EXPECT_EQ(DollarsText(4.926e6), "$4.93 M");
  EXPECT_EQ(DollarsText(12'300), "$12,300");
  EXPECT_EQ(DollarsText(-12'300), "-$12,300");
  EXPECT_EQ(LargeCountText(15e12), "15.00 T");
  EXPECT_EQ(LargeCountText(2.46e6), "2.46 M");
}

TEST(WhatIfTextTest, BarsAreAsLongAsTheirShare) {
  EXPECT_EQ(BarText(1, 3), "███");
  EXPECT_EQ(BarText(0.5, 3), "█▌");
  EXPECT_EQ(BarText(1.0 / 24, 3), "▏");
  EXPECT_EQ(BarText(0, 3), "");
}

TEST(WhatIfTextTest, ChangesAreToldAndApplied) {
  spec::ClusterSpec cluster;
  cluster.nics_per_node = 4;
  cluster.inter_node.bandwidth_bytes_per_s = 50e9;
  cluster.device.memory_bytes = 1000;
  cluster.device.memory_bandwidth_bytes_per_s = 3;
  cluster.device.peak_flops_per_s[base::DType::kBFloat16] = 10;
  Apply({ClusterQuantity::kNicsPerNode, true, 2}, cluster);
  Apply({ClusterQuantity::kInterNodeBandwidth, false, 100e9}, cluster);
  Apply({ClusterQuantity::kMemory, true, 1.5}, cluster);
  Apply({ClusterQuantity::kDeviceSpeed, true, 3}, cluster);
  EXPECT_EQ(cluster.nics_per_node, 8);
  EXPECT_EQ(cluster.inter_node.bandwidth_bytes_per_s, 100e9);
  EXPECT_EQ(cluster.device.memory_bytes, 1500);
  EXPECT_EQ(cluster.device.memory_bandwidth_bytes_per_s, 9);
  EXPECT_EQ(cluster.device.peak_flops_per_s[base::DType::kBFloat16], 30);
  EXPECT_EQ(ChangesText({{ClusterQuantity::kNicsPerNode, true, 2},
                         {ClusterQuantity::kInterNodeBandwidth, false, 100e9}}),
            "2x NICs a node, 100.00 GB/s bandwidth between nodes");
}

TEST(WhatIfTextTest, TableAndCsvHoldAllPointsAndMarkTheAnswer) {
  const RunTerms terms = TermsWithoutFailures(64'000 * 864'000.0);
  WhatIfRequest request;
  request.terms = terms;
  WhatIfResult result;
  result.points = MakeHandPoints({{.num_devices = 8, .price_per_hour = 1},
                                  {.num_devices = 16, .step_time_s = 0.5, .price_per_hour = 1}},
                                 terms);
  result.points.push_back(MakeHandPoint(2, {.num_devices = 4}, terms));
  result.points.back().found.best.reset();
  result.points.back().run.reset();
  result.points.back().found.reason = "no \"layout\", not one";
  result.frontier = {1};
  Answer answer;
  answer.is_feasible = true;
  answer.point = 1;
  result.answers = {answer};
  const std::string text = WhatIfText(request, result);
  EXPECT_THAT(text, HasSubstr("10.0 days"));
  EXPECT_THAT(text, HasSubstr("$1,920"));
  EXPECT_THAT(text, HasSubstr("████████████ * <= answer"));
  EXPECT_THAT(text, HasSubstr("nothing fits"));
  const std::string csv = WhatIfCsv(result);
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 4);
  EXPECT_THAT(csv, HasSubstr("\"no \"\"layout\"\", not one\""));
  EXPECT_THAT(csv, HasSubstr("device_hours"));
}

}  // namespace
}  // namespace tessera::planner
