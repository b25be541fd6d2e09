// What a run takes: the identities that every row of a report must keep.
#include <gtest/gtest.h>

#include "cost_model/spec/parameter_list.h"
#include "planner/what_if/economics.h"
#include "tests/planner/test_requests.h"
#include "tests/planner/what_if_points.h"

namespace tessera::planner {
namespace {

cost_model::Job LlamaOn(int num_devices) {
  return MakeTestRequest("llama3-8b", "dgx-h100", num_devices, 512).job;
}

spec::StepReport ReportOf(double tokens_per_s) {
  spec::StepReport report;
  report.tokens_per_s = tokens_per_s;
  return report;
}

RunTerms TrillionTokens() {
  RunTerms terms = LoadRunTerms();
  terms.tokens = 1e12;
  terms.price_per_device_hour["dgx-h100"] = 2.5;
  return terms;
}

TEST(WhatIfEconomicsTest, DaysTimesDevicesTimesADayAreTheDeviceHours) {
  for (const int num_devices : {8, 64, 1024, 16384}) {
    const RunFigures run = EstimateRun(LlamaOn(num_devices), ReportOf(6e5), TrillionTokens());
    EXPECT_NEAR(run.Days() * num_devices * 24, run.device_hours, 1e-9 * run.device_hours);
    EXPECT_NEAR(run.effective_tokens_per_s * run.wall_s, 1e12, 1);
    ASSERT_TRUE(run.cost_usd);
    EXPECT_NEAR(*run.cost_usd, 2.5 * run.device_hours, 1e-9 * *run.cost_usd);
  }
}

TEST(WhatIfEconomicsTest, ARunWithoutFailuresIsAHandCount) {
  RunTerms terms = TermsWithoutFailures(864e9);
  terms.price_per_device_hour["dgx-h100"] = 2;
  terms.node_power_factor.value = 1.5;
  terms.power_usage_effectiveness.value = 1.2;
  // 1e6 tokens/s: 864,000 s, 10 days; on 100 devices 24,000 hours, of 700 W each.
  const RunFigures run = EstimateRun(LlamaOn(100), ReportOf(1e6), terms);
  EXPECT_DOUBLE_EQ(run.Days(), 10);
  EXPECT_DOUBLE_EQ(run.device_hours, 24'000);
  EXPECT_DOUBLE_EQ(*run.cost_usd, 48'000);
  EXPECT_NEAR(*run.energy_kwh, 24'000 * 0.7 * 1.5 * 1.2, 1e-6);
  EXPECT_EQ(run.goodput.useful_share, 1);
  EXPECT_EQ(run.expected_failures, 0);
}

TEST(WhatIfEconomicsTest, CostGrowsWithThePriceAndIsAbsentWithoutOne) {
  RunTerms terms = TrillionTokens();
  double previous = -1;
  for (const double price : {0.0, 0.5, 2.5, 10.0}) {
    terms.price_per_device_hour["dgx-h100"] = price;
    const RunFigures run = EstimateRun(LlamaOn(64), ReportOf(6e5), terms);
    ASSERT_TRUE(run.cost_usd);
    EXPECT_GT(*run.cost_usd, previous);
    previous = *run.cost_usd;
  }
  terms.price_per_device_hour.clear();
  cost_model::Job job = LlamaOn(64);
  job.cluster.device.price_per_hour = 0;
  EXPECT_FALSE(EstimateRun(job, ReportOf(6e5), terms).cost_usd);
  job.cluster.device.price_per_hour = 3;  // the cluster file's own
  EXPECT_TRUE(EstimateRun(job, ReportOf(6e5), terms).cost_usd);
}

TEST(WhatIfEconomicsTest, MoreFailuresMakeARunLongerDearerAndLessUseful) {
  RunTerms terms = TrillionTokens();
  double previous_share = 1.1;
  double previous_cost = 0;
  for (const double mtbf_hours : {1e9, 50'000.0, 5'000.0, 500.0}) {
    terms.mtbf_device_s.value = mtbf_hours * 3600;
    const RunFigures run = EstimateRun(LlamaOn(1024), ReportOf(6e6), terms);
    EXPECT_LT(run.goodput.useful_share, previous_share) << mtbf_hours;
    EXPECT_GT(*run.cost_usd, previous_cost) << mtbf_hours;
    previous_share = run.goodput.useful_share;
    previous_cost = *run.cost_usd;
  }
}

TEST(WhatIfEconomicsTest, FailuresOfDevicesAddUp) {
  // The source of the default: 419 interruptions in 54 days on 16,384 devices.
  const RunFigures run = EstimateRun(LlamaOn(16384), ReportOf(6e6), TrillionTokens());
  EXPECT_NEAR(54 * 86400 / run.mtbf_s, 419, 1);
}

TEST(WhatIfEconomicsTest, ACheckpointHoldsWeightsMasterWeightsAndMoments) {
  cost_model::Job job = LlamaOn(8);
  const auto num_parameters = static_cast<double>(spec::NumParameters(job.model));
  EXPECT_DOUBLE_EQ(CheckpointBytes(job), num_parameters * (2 + 4 + 8));
  job.training.precision = spec::Precision::kFp32;
  EXPECT_DOUBLE_EQ(CheckpointBytes(job), num_parameters * (4 + 8));
}

TEST(WhatIfEconomicsTest, EachDefaultHasATagAndASource) {
  const RunTerms terms = LoadRunTerms();
  for (const SourcedNumber& number :
       {terms.mtbf_device_s, terms.storage_bandwidth_bytes_per_s_per_device, terms.restart_s,
        terms.node_power_factor, terms.power_usage_effectiveness}) {
    EXPECT_FALSE(number.source.tag.empty());
    EXPECT_FALSE(number.source.text.empty());
  }
}

}  // namespace
}  // namespace tessera::planner
