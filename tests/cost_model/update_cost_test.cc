// What follows the pipeline, counted by hand on a cluster of round numbers.
#include "cost_model/update_cost.h"

#include <gtest/gtest.h>

#include "cost_model/memory.h"
#include "cost_model/step_cost.h"
#include "tests/cost_model/test_jobs.h"

namespace tessera::cost_model {
namespace {

constexpr int64_t kElements = 10'000'000;

spec::ParallelSpec PlainLayout(int tp, int pp, int dp) {
  spec::ParallelSpec parallel;
  parallel.tensor_parallel_size = tp;
  parallel.pipeline_parallel_size = pp;
  parallel.data_parallel_size = dp;
  return parallel;
}

UpdateCost CostOf(const Job& job, const spec::ParallelSpec& parallel,
                  const StageParameterCounts& parameters) {
  return MakeUpdateCost(JobCosts(job), parallel, MakeLayoutGroups(parallel), parameters);
}

// Two data ranks on two nodes, eight tensor ranks each: 4 bytes a gradient, half of them sent, by
// eight ranks at once over 40 GB/s; 2 bytes a bf16 parameter on the way back.
TEST(UpdateCostTest, ShardedStateScattersGradientsAndGathersParameters) {
  const UpdateCost cost = CostOf(RoundJob(16), PlainLayout(8, 1, 2), {.elements = kElements});
  EXPECT_DOUBLE_EQ(cost.gradient_comm_s, 0.5 * 40e6 * 8 / 40e9);
  EXPECT_DOUBLE_EQ(cost.gather_comm_s, 0.5 * 20e6 * 8 / 40e9);
  // Half of the parameters each: 28 bytes of fp32 state and gradient, 2 of the parameter.
  EXPECT_DOUBLE_EQ(cost.optimizer_s, 5e6 * 30 / 1e12);
  // Gradients are cleared, its own half is read for the norm; a number meets all others in no time.
  EXPECT_NEAR(cost.other_s, 40e6 / 1e12 + 20e6 / 1e12, 1e-8);
}

TEST(UpdateCostTest, WholeStateReducesGradientsAndGathersNothing) {
  spec::ParallelSpec parallel = PlainLayout(8, 1, 2);
  parallel.zero_stage = 0;
  const UpdateCost cost = CostOf(RoundJob(16), parallel, {.elements = kElements});
  EXPECT_DOUBLE_EQ(cost.gradient_comm_s, 2 * 0.5 * 40e6 * 8 / 40e9);
  EXPECT_EQ(cost.gather_comm_s, 0);
  EXPECT_DOUBLE_EQ(cost.optimizer_s, 10e6 * 30 / 1e12);
}

TEST(UpdateCostTest, OneDataRankReducesNothing) {
  const UpdateCost cost = CostOf(RoundJob(8), PlainLayout(8, 1, 1), {.elements = kElements});
  EXPECT_EQ(cost.gradient_comm_s, 0);
  EXPECT_EQ(cost.gather_comm_s, 0);
}

// Two ranks of a node over 100 GB/s, then two on different nodes with eight tensor ranks each.
TEST(UpdateCostTest, FirstAndLastStageAddTheGradientsOfATiedEmbedding) {
  const StageParameterCounts parameters{.elements = kElements, .tied = kElements};
  EXPECT_DOUBLE_EQ(CostOf(RoundJob(2), PlainLayout(1, 2, 1), parameters).tied_comm_s,
                   2 * 0.5 * 40e6 / 100e9);
  EXPECT_DOUBLE_EQ(CostOf(RoundJob(16), PlainLayout(8, 2, 1), parameters).tied_comm_s,
                   2 * 0.5 * 40e6 * 8 / 40e9);
}

TEST(UpdateCostTest, TensorRanksAddTheGradientsTheyHoldTogether) {
  const StageParameterCounts tokenwise{.elements = kElements, .tokenwise = kElements};
  EXPECT_DOUBLE_EQ(CostOf(RoundJob(8), PlainLayout(8, 1, 1), tokenwise).tensor_comm_s,
                   2 * 7.0 / 8 * 40e6 / 100e9);
  // Two key/value heads over eight ranks: four hold each.
  Job job = RoundJob(8);
  job.model.num_key_value_heads = 2;
  const StageParameterCounts replicated{.elements = kElements, .kv_replicated = kElements};
  EXPECT_DOUBLE_EQ(CostOf(job, PlainLayout(8, 1, 1), replicated).tensor_comm_s,
                   2 * 3.0 / 4 * 40e6 / 100e9);
}

// Per layer two norms of scale and shift, and the biases of the two row-parallel products, 1024
// wide; half of a vocabulary of 32768 rows, 1024 wide.
TEST(ParameterCountsTest, SharedParametersAreCounted) {
  JobCosts costs(RoundJob(4));
  spec::ParallelSpec parallel = PlainLayout(2, 2, 1);
  parallel.sequence_parallel = true;
  EXPECT_EQ(costs.ParametersOf(parallel).layers[0].tokenwise, 6 * 1024);
  EXPECT_EQ(costs.ParametersOf(parallel).tied_embedding, 16384 * 1024);
  EXPECT_EQ(costs.ParametersOf(parallel).layers[0].kv_replicated, 0);
  EXPECT_EQ(costs.ParametersOf(PlainLayout(2, 1, 2)).layers[0].tokenwise, 0);
}

// A micro-batch of 1024 tokens, 1024 wide, 2 bytes each. Stages of four ranks: within the node over
// a link, to the next node all four share 40 GB/s.
TEST(StepPartsTest, RanksOfAStageShareTheNicsOfTheirNode) {
  JobCosts costs(RoundJob(16));
  const StepParts parts = MakeStepParts(costs, PlainLayout(4, 4, 1));
  constexpr double kBytes = 2.0 * 1024 * 1024;
  EXPECT_DOUBLE_EQ(parts.transfer_s[0], kBytes / 100e9);
  EXPECT_DOUBLE_EQ(parts.transfer_s[1], kBytes * 4 / 40e9);
  EXPECT_DOUBLE_EQ(parts.transfer_s[2], kBytes / 100e9);
}

// However few the cores: all ranks' bytes over the memory bandwidth that they share.
TEST(StepCostTest, RanksOfAPoolUpdateOverTheBandwidthTheyShare) {
  for (const int num_cores : {1, 2, 4}) {
    Job job = RoundJob(4);
    job.cluster.shared_compute_units = num_cores;
    JobCosts costs(job);
    spec::ParallelSpec parallel = PlainLayout(1, 1, 4);
    parallel.zero_stage = 0;
    const spec::StepReport report = PriceStep(costs, parallel).report;
    const double elements = static_cast<double>(report.stages[0].weights_bytes) / 2;
    // Padding of buckets is held, not updated.
    EXPECT_NEAR(report.time.optimizer_s, 4 * 30 * elements / 1e12, 1e-3 * report.time.optimizer_s);
    // Nothing of a reduction is hidden where it takes cores from the backward pass.
    const double reduced_s = report.time.dp_comm_s;
    parallel.overlap_grad_reduce = false;
    EXPECT_DOUBLE_EQ(PriceStep(costs, parallel).report.time.dp_comm_s, reduced_s);
  }
}

TEST(StepCostTest, RanksOfAPoolTakeTurnsAtTheirReductions) {
  double reduced_s[3] = {};
  for (const int num_cores : {1, 2}) {  // a rank's link keeps its 100 GB/s with either
    Job job = RoundJob(4);
    job.cluster.shared_compute_units = num_cores;
    JobCosts costs(job);
    reduced_s[num_cores] = PriceStep(costs, PlainLayout(1, 1, 4)).report.time.dp_comm_s;
  }
  EXPECT_DOUBLE_EQ(reduced_s[1], 2 * reduced_s[2]);
}

// One rank, T = 1024 tokens, h = 1024, f = 4 h, 16-bit: the gradient that arrives, T h; largest
// beside it the gradient of the MLP's first product with that of its input, T f + T h.
TEST(MemoryTest, TheWorkspaceIsTheWidestPairOfGradients) {
  const Job job = RoundJob(1);
  const spec::ParallelSpec parallel;
  const auto shape = spec::MakeLocalShape(job.model, job.training, parallel);
  EXPECT_EQ(PassWorkspaceOf(job.model, job.training, parallel, shape).layer.backward,
            2 * 1024 * 1024 * (1 + 4 + 1));
}

}  // namespace
}  // namespace tessera::cost_model
