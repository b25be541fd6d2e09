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

// With data ranks next to each other it depends on their number where tensor ranks sit.
TEST(JobCostsTest, PricesDoNotDependOnWhatWasPricedBefore) {
  spec::ParallelSpec parallel;
  parallel.rank_order = "dp-cp-ep-pp-tp";
  parallel.tensor_parallel_size = 4;
  JobCosts costs(RoundJob(16));
  for (const int dp : {1, 2, 4}) {
    parallel.data_parallel_size = dp;
    parallel.pipeline_parallel_size = 4 / dp;
    JobCosts fresh(RoundJob(16));
    EXPECT_EQ(PriceStep(costs, parallel).report.step_time_s,
              PriceStep(fresh, parallel).report.step_time_s)
        << dp;
  }
}

TEST(StepCostTest, OverlapHidesTensorParallelCommunication) {
  Job job = RoundJob(8);
  spec::ParallelSpec parallel;
  parallel.tensor_parallel_size = 8;
  parallel.sequence_parallel = true;
  JobCosts costs(job);
  const double exposed_s = PriceStep(costs, parallel).report.time.tp_comm_s;
  parallel.overlap_tp_comm = true;
  const double half_hidden_s = PriceStep(costs, parallel).report.time.tp_comm_s;
  EXPECT_LT(half_hidden_s, exposed_s);
  job.runtime.tensor_comm_in_pieces = true;  // the forward pass's too
  JobCosts pieces(job);
  EXPECT_LT(PriceStep(pieces, parallel).report.time.tp_comm_s, exposed_s);
  parallel.overlap_tp_comm = false;
  EXPECT_EQ(PriceStep(pieces, parallel).report.time.tp_comm_s, exposed_s);
  job.runtime.tensor_comm_beside_weight_gradients = true;
  JobCosts beside(job);
  EXPECT_EQ(PriceStep(beside, parallel).report.time.tp_comm_s, half_hidden_s);
  job.cluster.collectives.overlap_slowdown = 0.1;
  JobCosts slowed(job);
  EXPECT_GT(PriceStep(slowed, parallel).report.time.tp_comm_s, half_hidden_s);
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
