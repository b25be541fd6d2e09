// Steps held against each other.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "cost_model/base/error.h"
#include "planner/what_if/comparison.h"
#include "planner/what_if/step_report_json.h"

namespace tessera::planner {
namespace {

using ::testing::HasSubstr;

ComparedSide Side(const std::string& name, double forward_s, double tp_comm_s) {
  ComparedSide side{name, "plan", "", {}};
  side.report.time.forward_s = forward_s;
  side.report.time.tp_comm_s = tp_comm_s;
  side.report.step_time_s = side.report.time.Total();
  side.report.tokens_per_s = 1000 / side.report.step_time_s;
  return side;
}

TEST(WhatIfComparisonTest, DifferencesOfTheTermsSumToThatOfTheSteps) {
  const Comparison comparison = Compare(Side("a.json", 2, 1), Side("b.json", 2.5, 0.2));
  double sum_s = 0;
  for (const ComparedTerm& term : comparison.terms) sum_s += term.DifferenceS();
  EXPECT_NEAR(sum_s, -0.3, 1e-12);
  EXPECT_THAT(comparison.sentence, HasSubstr("10.0 % less than one of a.json"));
  EXPECT_THAT(comparison.sentence, HasSubstr("throughput +11.1 %"));
  EXPECT_THAT(comparison.sentence, HasSubstr("less tensor-parallel communication"));
  EXPECT_THAT(ComparisonText(comparison), HasSubstr("-800.00 ms"));
}

class StepReportFileTest : public ::testing::Test {
 protected:
  ComparedSide Read(const std::string& text) {
    const std::string path = ::testing::TempDir() + "/step_report.json";
    std::ofstream(path) << text;
    return ReadStepReport(path);
  }
};

TEST_F(StepReportFileTest, OfMetricsTheMedianStepAndTheMeanTermsCountWithoutTheFirstRow) {
  const ComparedSide side = Read(
      "{\"step\":1,\"loss\":5,\"step_time_s\":9,\"forward_s\":9,\"tokens_per_s\":1}\n"
      "{\"step\":2,\"loss\":5,\"step_time_s\":2,\"forward_s\":0.5,\"tokens_per_s\":50}\n"
      "{\"step\":3,\"loss\":5,\"step_time_s\":4,\"forward_s\":1.5,\"tokens_per_s\":25}\n"
      "{\"step\":4,\"loss\":5,\"step_time_s\":3,\"forward_s\":1,\"pp_wait_s\":0.3,"
      "\"tokens_per_s\":33}\n");
  EXPECT_EQ(side.kind, "measurement");
  EXPECT_DOUBLE_EQ(side.report.step_time_s, 3);
  EXPECT_DOUBLE_EQ(side.report.tokens_per_s, 33);
  EXPECT_DOUBLE_EQ(side.report.time.forward_s, 1);
  EXPECT_DOUBLE_EQ(side.report.time.bubble_s, 0.1);
  EXPECT_DOUBLE_EQ(side.report.time.other_s, 1.9);
  EXPECT_DOUBLE_EQ(side.report.time.Total(), 3);
}

TEST_F(StepReportFileTest, AnEstimateKeepsItsTerms) {
  const ComparedSide side = Read(
      "{\"step_time_s\": 3, \"time\": {\"compute_s\": 2.5, \"tp_comm_s\": 0.5}, "
      "\"compute\": {\"forward_s\": 1, \"backward_s\": 1.5, \"recompute_s\": 0}}");
  EXPECT_EQ(side.kind, "estimate");
  EXPECT_DOUBLE_EQ(side.report.time.backward_s, 1.5);
  EXPECT_NEAR(side.report.time.other_s, 0, 1e-12);
}

TEST_F(StepReportFileTest, ATrainReportIsItsMeasurement) {
  const ComparedSide side =
      Read("{\"measured\": {\"step_time_s\": 2, \"time\": {\"tp_comm_s\": 0.5}}, \"ranks\": []}");
  EXPECT_EQ(side.kind, "measurement");
  EXPECT_DOUBLE_EQ(side.report.step_time_s, 2);
}

TEST_F(StepReportFileTest, OtherFilesAreWrongInput) {
  for (const char* text : {"", "{}", "[1]", "no json", "{\"loss\": 1}", "{\"step_time_s\": 3}",
                           "{\"step_time_s\": -1, \"time\": {}}"}) {
    EXPECT_THROW(Read(text), base::ConfigError) << text;
  }
  EXPECT_THROW(ReadStepReport("/no/such/file.json"), base::ConfigError);
}

}  // namespace
}  // namespace tessera::planner
