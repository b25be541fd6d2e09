// Which operations run again where every other product is kept.
#include "cost_model/spec/alternate_products.h"

#include <gtest/gtest.h>

#include "cost_model/block_cost.h"
#include "cost_model/job_costs.h"
#include "cost_model/spec/spec_json.h"
#include "tests/cost_model/test_jobs.h"

namespace tessera::spec {
namespace {

using base::OpKind;

// Columns of the products that run again, and whether attention and scattered sums do.
struct RunAgain {
  std::vector<int64_t> columns;
  bool attention = false;
  bool scattered = false;
};

RunAgain RunAgainOf(const ModelSpec& model, const ParallelSpec& parallel, const LayerForm& form) {
  const TrainingSpec training{.global_batch_size = 8, .sequence_length = 8192};
  std::vector<Op> ops;
  AppendLayerBackwardByProducts(model, parallel, form, MakeLocalShape(model, training, parallel),
                                ops);
  RunAgain again;
  for (const Op& op : ops) {
    if (!op.recomputed) continue;
    if (op.record.kind == OpKind::kMatMul) again.columns.push_back(op.record.dims[1]);
    again.attention = again.attention || op.record.kind == OpKind::kAttentionForward;
    again.scattered = again.scattered || op.record.kind == OpKind::kReduceScatter;
  }
  return again;
}

// Llama 3 8B: keys of 8 heads of 128, attention's output of 4096 columns, the MLP's second of two
// products of 14336.
TEST(AlternateProductsTest, EverySecondProductRunsAgainAndAttentionDoesNot) {
  const ModelSpec model = LoadModel("llama3-8b");
  ParallelSpec parallel;
  RunAgain again = RunAgainOf(model, parallel, {});
  EXPECT_EQ(again.columns, (std::vector<int64_t>{8 * 128, 4096, 14336}));
  EXPECT_FALSE(again.attention);
  // The kept scattered sum spares the product before it.
  parallel.tensor_parallel_size = 4;
  parallel.sequence_parallel = true;
  again = RunAgainOf(model, parallel, {});
  EXPECT_EQ(again.columns, (std::vector<int64_t>{2 * 128, 14336 / 4}));
  EXPECT_FALSE(again.scattered);
}

// The runtime's selective recomputation costs more than none and less than all.
TEST(AlternateProductsTest, RecomputesPartOfWhatFullRecomputationDoes) {
  cost_model::Job job = cost_model::RoundJob(8);
  job.model = LoadModel("llama3-8b");
  job.training.sequence_length = 8192;
  job.runtime.keeps_alternate_products = true;
  cost_model::JobCosts costs(job);
  ParallelSpec parallel;
  const auto recompute_flops = [&](Recompute recompute) {
    return costs.BlocksOf(parallel, recompute).layers[0].recompute_flops;
  };
  // 2 FLOPs for each of 8192 tokens, 4096 inputs and 1024 + 4096 + 14336 columns.
  EXPECT_DOUBLE_EQ(recompute_flops(Recompute::kSelective), 2.0 * 8192 * 4096 * 19456);
  EXPECT_GT(recompute_flops(Recompute::kFull), recompute_flops(Recompute::kSelective));
}

}  // namespace
}  // namespace tessera::spec
