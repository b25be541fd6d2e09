#include "cost_model/overlap.h"

#include <gtest/gtest.h>

#include "cost_model/step_cost.h"
#include "tests/cost_model/test_jobs.h"

namespace tessera::cost_model {
namespace {

TEST(OverlapTest, WhatOutlastsTheComputingIsExposed) {
  EXPECT_DOUBLE_EQ(ExposedSeconds(5, 3, 0), 2);
  EXPECT_DOUBLE_EQ(ExposedSeconds(2, 3, 0), 0);
}

// Computing that takes a quarter longer meanwhile: beside 5 s of communication it gets 4 s of work
// done.
TEST(OverlapTest, HidingCostsTheComputingItsSlowDown) {
  EXPECT_DOUBLE_EQ(ExposedSeconds(5, 100, 0.25), 1);
  EXPECT_DOUBLE_EQ(ExposedSeconds(5, 2, 0.25), 3);
  // The two meet where the computing, slowed, lasts just as long.
  EXPECT_DOUBLE_EQ(ExposedSeconds(5, 4, 0.25), 1);
}

// Eight pieces of which seven find the product beside them.
TEST(OverlapTest, OnePieceOfAPipelinedCollectiveStandsAlone) {
  EXPECT_DOUBLE_EQ(ExposedBesideProductSeconds(8, 100, 8, 0), 1);
  EXPECT_DOUBLE_EQ(ExposedBesideProductSeconds(8, 3, 8, 0), 1 + 4);
  EXPECT_DOUBLE_EQ(ExposedBesideProductSeconds(8, 0, 8, 0), 8);
  EXPECT_DOUBLE_EQ(ExposedBesideProductSeconds(8, 100, 1, 0), 8);
}

TEST(OverlapTest, NothingIsHiddenForMoreThanItCosts) {
  EXPECT_LE(ExposedBesideProductSeconds(8, 100, 2, 1e9), 8);
}

// 16 devices whose pace deviates by 1 %: the slowest is sqrt(2 ln 16) deviations behind.
TEST(StragglerTest, EveryStepWaitsForTheSlowestDevice) {
  Job job = RoundJob(16);
  spec::ParallelSpec parallel;
  parallel.tensor_parallel_size = 8;
  parallel.data_parallel_size = 2;
  JobCosts even(job);
  const spec::TimeBreakdown without = PriceStep(even, parallel).report.time;
  job.cluster.pace_deviation = 0.01;
  JobCosts uneven(job);
  const spec::StepReport report = PriceStep(uneven, parallel).report;
  EXPECT_EQ(without.straggler_s, 0);
  const double pipeline_s =
      without.Compute() + without.tp_comm_s + without.bubble_s + without.pp_comm_s;
  EXPECT_NEAR(report.time.straggler_s, 0.01 * 2.354820045 * pipeline_s, 1e-9 * pipeline_s);
  EXPECT_DOUBLE_EQ(report.time.Total(), report.step_time_s);
  EXPECT_DOUBLE_EQ(report.step_time_s, without.Total() + report.time.straggler_s);
}

}  // namespace
}  // namespace tessera::cost_model
