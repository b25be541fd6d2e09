// Steps of mixtures of experts: what experts, their number and their network cost.
#include <gtest/gtest.h>

#include "cost_model/collective_cost.h"
#include "cost_model/spec/parameter_list.h"
#include "cost_model/step_cost.h"
#include "tests/cost_model/test_jobs.h"

namespace tessera::cost_model {
namespace {

// Two dense layers, then six with 16 experts of which a token visits two.
Job ExpertJob(int num_devices = 16) {
  Job job = RoundJob(num_devices);
  job.model.qkv_bias = job.model.attention_output_bias = job.model.mlp_bias = false;
  job.model.activation = spec::ActivationKind::kSwiGlu;
  job.model.moe = spec::MoeSpec{.num_experts = 16,
                                .experts_per_token = 2,
                                .expert_ffn_hidden_size = 2048,
                                .num_leading_dense_layers = 2};
  return job;
}

spec::ParallelSpec ExpertLayout(int ep, int tp = 1, int pp = 1, int dp = 16) {
  spec::ParallelSpec parallel;
  parallel.tensor_parallel_size = tp;
  parallel.sequence_parallel = tp > 1;
  parallel.pipeline_parallel_size = pp;
  parallel.data_parallel_size = dp;
  parallel.expert_parallel_size = ep;
  return parallel;
}

double StepSeconds(const Job& job, const spec::ParallelSpec& parallel) {
  JobCosts costs(job);
  return PriceStep(costs, parallel).report.step_time_s;
}

TEST(ExpertCostTest, FewerExpertsPerTokenAreFaster) {
  Job job = ExpertJob();
  const double top2 = StepSeconds(job, ExpertLayout(4));
  job.model.moe->experts_per_token = 1;
  EXPECT_LT(StepSeconds(job, ExpertLayout(4)), top2);
  job.model.moe->experts_per_token = 2;
  job.model.moe->capacity_factor = 1.5;
  EXPECT_GT(StepSeconds(job, ExpertLayout(4)), top2);
}

TEST(ExpertCostTest, OnlyExpertGroupsTalkAboutRoutedTokens) {
  JobCosts costs(ExpertJob());
  EXPECT_EQ(PriceStep(costs, ExpertLayout(1)).report.time.ep_comm_s, 0);
  const double in_a_node = PriceStep(costs, ExpertLayout(8)).report.time.ep_comm_s;
  EXPECT_GT(in_a_node, 0);
  EXPECT_GT(PriceStep(costs, ExpertLayout(16)).report.time.ep_comm_s, in_a_node)
      << "over two nodes";
}

// Four all-to-alls of 1,024 tokens x 2 rows x 1,024 numbers of 2 bytes; a rank keeps an eighth of
// its rows and sends the rest over links of 100 GB/s. What else travels, a weight and its gradient
// for each row and how many rows there are, is less than a thousandth of it.
TEST(ExpertCostTest, RoutedTokensTakeTheLinksTime) {
  const Job job = ExpertJob(8);
  JobCosts costs(job);
  const spec::ParallelSpec parallel = ExpertLayout(8, 1, 1, 8);
  const double rows_bytes = 1024.0 * 2 * 1024 * 2;
  const double layer_s = 4 * rows_bytes * 7 / 8 / 100e9;
  const int64_t num_microbatches = spec::NumMicrobatches(job.training, parallel);
  const double rows_s = 6 * layer_s * static_cast<double>(num_microbatches);
  const double priced_s = PriceStep(costs, parallel).report.time.ep_comm_s;
  EXPECT_GT(priced_s, rows_s);
  EXPECT_LT(priced_s, 1.001 * rows_s);
}

TEST(ExpertCostTest, OneCopyOfATokenCrossesToEachNode) {
  EXPECT_DOUBLE_EQ(CopiesShare(1, 4), 1);
  EXPECT_DOUBLE_EQ(CopiesShare(2, 2), 0.75) << "both copies meet on one of two nodes half the time";
  Job job = ExpertJob(64);
  job.training.global_batch_size = 64;
  const auto exchange_s = [&](bool deduplicated, int ep) {
    job.runtime.deduplicated_dispatch = deduplicated;
    JobCosts costs(job);
    return PriceStep(costs, ExpertLayout(ep, 1, 1, 64)).report.time.ep_comm_s;
  };
  const double all_copies_s = exchange_s(false, 16);
  EXPECT_NEAR(exchange_s(true, 16), 0.75 * all_copies_s, 1e-4 * all_copies_s)
      << "two nodes, NICs bound";
  EXPECT_DOUBLE_EQ(exchange_s(true, 8), exchange_s(false, 8)) << "one node";
}

TEST(ExpertCostTest, LayersOfEachFormCountOnTheirStage) {
  const Job job = ExpertJob();
  JobCosts costs(job);
  const spec::ParallelSpec parallel =
      ExpertLayout(2, 1, 4, 4);  // two layers a stage: the first dense
  const StepParts parts = MakeStepParts(costs, parallel);
  const BlockCosts& blocks = costs.BlocksOf(parallel);
  const BlockCost& dense = blocks.layers[spec::IndexOf({})];
  const BlockCost& experts = blocks.layers[spec::IndexOf({.has_experts = true})];
  EXPECT_DOUBLE_EQ(parts.costs[0].forward_s, 2 * dense.forward_s + blocks.embedding.forward_s);
  EXPECT_DOUBLE_EQ(parts.costs[1].forward_s, 2 * experts.forward_s);
  EXPECT_DOUBLE_EQ(parts.costs[1].forward_comm.expert_s, 2 * experts.forward_comm.expert_s);
}

TEST(ExpertCostTest, ParametersAreCountedAsListed) {
  Job job = ExpertJob();
  job.model.num_multi_token_layers = 1;
  JobCosts costs(job);
  for (const spec::ParallelSpec& parallel :
       {ExpertLayout(1), ExpertLayout(4), ExpertLayout(4, 2, 1, 8), ExpertLayout(2, 1, 2, 8)}) {
    const spec::VirtualStage stage{.index = 1, .first_layer = 1, .num_layers = 2, .has_head = true};
    int64_t elements = 0, expert_elements = 0, tokenwise = 0;
    for (const auto& parameter : spec::StageParameters(job.model, parallel, stage)) {
      if (parameter.tied_copy && parallel.pipeline_parallel_size == 1) continue;
      const int64_t local = spec::SliceOf(parameter, parallel.tensor_parallel_size, 0).num_elements;
      elements += local;
      if (parameter.is_expert) expert_elements += local;
      if (parameter.sequence_parallel_gradient) tokenwise += local;
    }
    const StageParameterCounts counted = CountParameters(
        costs.ParametersOf(parallel), spec::CountForms(job.model, stage), false, true);
    EXPECT_EQ(counted.elements, elements);
    EXPECT_EQ(counted.expert_elements, expert_elements);
    EXPECT_EQ(counted.tokenwise, tokenwise);
  }
}

TEST(ExpertCostTest, TheFastPriceIsTheFullPrice) {
  JobCosts costs(ExpertJob());
  for (const spec::ParallelSpec& parallel :
       {ExpertLayout(1), ExpertLayout(8), ExpertLayout(2, 2, 2, 4)}) {
    const double full_s = PriceStep(costs, parallel).report.step_time_s;
    EXPECT_NEAR(PriceStepFast(costs, parallel).step_time_s, full_s, 1e-6 * full_s);
  }
}

}  // namespace
}  // namespace tessera::cost_model
