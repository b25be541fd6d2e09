// Sharded state and recomputation of some layers: counted by hand on a cluster of round numbers,
// and what must hold of them anywhere.
#include <gtest/gtest.h>

#include "cost_model/step_cost.h"
#include "tests/cost_model/test_jobs.h"

namespace tessera::cost_model {
namespace {

spec::ParallelSpec DataParallel(int dp, int zero_stage) {
  spec::ParallelSpec parallel;
  parallel.data_parallel_size = dp;
  parallel.zero_stage = zero_stage;
  return parallel;
}

UpdateCost UpdateOf(const Job& job, const spec::ParallelSpec& parallel,
                    const StageParameterCounts& parameters) {
  return MakeUpdateCost(JobCosts(job), parallel, MakeLayoutGroups(parallel), parameters);
}

// Sixteen ranks on two nodes, shards of eight: 4 bytes a gradient, 7/8 of them scattered over the
// node's links at 100 GB/s; then an eighth all-reduced between two ranks of different nodes, all
// eight of a node at once over 40 GB/s. Parameters, 2 bytes each, are gathered within the node.
TEST(HybridShardingTest, ShardsScatterWithinANodeAndReplicasReduceBetweenNodes) {
  spec::ParallelSpec parallel = DataParallel(16, 1);
  parallel.zero_group_size = 8;
  parallel.bucket_elements = int64_t{1} << 30;
  const UpdateCost cost = UpdateOf(RoundJob(16), parallel, {.elements = 8'000'000});
  EXPECT_DOUBLE_EQ(cost.gradient_comm_s, 7.0 / 8 * 32e6 / 100e9 + 2 * 0.5 * (32e6 / 8) * 8 / 40e9);
  EXPECT_DOUBLE_EQ(cost.gather_comm_s, 7.0 / 8 * 16e6 / 100e9);
  EXPECT_DOUBLE_EQ(cost.optimizer_s, 1e6 * 30 / 1e12);
}

// Eight ranks, ep 4: two hold the same experts.
TEST(ExpertReductionTest, ExpertGradientsAreReducedByTheirHolders) {
  spec::ParallelSpec parallel = DataParallel(8, 0);
  parallel.expert_parallel_size = 4;
  const UpdateCost cost =
      UpdateOf(RoundJob(8), parallel, {.elements = 1'000'000, .expert_elements = 1'000'000});
  EXPECT_DOUBLE_EQ(cost.gradient_comm_s, 2 * 0.5 * 4e6 / 100e9);
}

TEST(GradientTypeTest, HalfTheBytesTakeHalfTheTime) {
  spec::ParallelSpec parallel = DataParallel(8, 1);
  const StageParameterCounts parameters{.elements = 8'000'000};
  const UpdateCost wide = UpdateOf(RoundJob(8), parallel, parameters);
  parallel.gradient_reduce_type = base::DType::kBFloat16;
  const UpdateCost narrow = UpdateOf(RoundJob(8), parallel, parameters);
  EXPECT_DOUBLE_EQ(narrow.gradient_comm_s, wide.gradient_comm_s / 2);
  EXPECT_DOUBLE_EQ(narrow.gather_comm_s, wide.gather_comm_s);
}

// A million parameters a rank: 4 + 2 bytes over a link of 20 GB/s, 28 bytes of state over a quarter
// of 100 GB/s, which the four devices of the node share.
TEST(OffloadTest, TheHostUpdatesAtTheSpeedOfItsMemory) {
  Job job = RoundJob(4);
  job.cluster.host = {.device_link_bandwidth_bytes_per_s = 20e9,
                      .memory_bandwidth_bytes_per_s = 100e9};
  spec::ParallelSpec parallel = DataParallel(4, 1);
  parallel.offload_optimizer = true;
  const UpdateCost cost = UpdateOf(job, parallel, {.elements = 4'000'000});
  EXPECT_DOUBLE_EQ(cost.optimizer_s, 1e6 * 6 / 20e9 + 1e6 * 28 * 4 / 100e9);
}

// With links of no account FSDP takes as long as whole parameters do; with slow ones each layer
// waits for the next one's parameters.
TEST(FullShardingTest, FastLinksHideTheGatheringOfAllButTheFirstPart) {
  Job job = RoundJob(8);
  job.cluster.intra_node.bandwidth_bytes_per_s = 1e15;
  JobCosts costs(job);
  const double whole_s = PriceStep(costs, DataParallel(8, 1)).report.step_time_s;
  const spec::StepReport sharded = PriceStep(costs, DataParallel(8, 3)).report;
  // It has fewer gradients to clear.
  EXPECT_NEAR(sharded.step_time_s, whole_s, 0.01 * whole_s);
}

TEST(FullShardingTest, SlowLinksBoundAStepByTheBytesItMoves) {
  Job job = RoundJob(8);
  job.cluster.intra_node.bandwidth_bytes_per_s = 1e8;
  JobCosts costs(job);
  spec::ParallelSpec parallel = DataParallel(8, 3);
  parallel.micro_batch_size = 4;  // two micro-batches
  const spec::StepReport report = PriceStep(costs, parallel).report;
  // Each micro-batch: parameters of 2 bytes gathered twice (the head's and the embedding's once),
  // gradients of 4 bytes reduced; those of the last layer and of the embedding wait to the end.
  const ParameterCounts& counts = costs.ParametersOf(parallel);
  const auto layer = static_cast<double>(counts.layers[0].elements);
  const auto embedding = static_cast<double>(counts.embedding.elements);
  const auto head = static_cast<double>(counts.head.elements);
  const double bytes = 2 * (8 * layer * (2 + 2 + 4) + embedding * 2 + head * 6) + embedding * 4;
  const double late_bytes = 2 * layer * 4;
  const double link_bytes_per_s = 1e8 * 8 / 7;
  EXPECT_LE(report.time.dp_comm_s, bytes / link_bytes_per_s);
  EXPECT_GE(report.time.dp_comm_s, (bytes - late_bytes) / link_bytes_per_s - report.time.Compute());
}

TEST(ShardingTest, MemoryFallsWithEveryStage) {
  JobCosts costs(RoundJob(8));
  int64_t last_bytes = std::numeric_limits<int64_t>::max();
  for (const int zero_stage : {0, 1, 2, 3}) {
    const spec::StepReport report = PriceStep(costs, DataParallel(8, zero_stage)).report;
    EXPECT_LE(report.peak_bytes, last_bytes) << "ZeRO stage " << zero_stage;
    last_bytes = report.peak_bytes;
  }
}

TEST(ShardingTest, FastPricesAreThoseOfTheSimulation) {
  JobCosts costs(RoundJob(8));
  for (const int zero_stage : {0, 1, 2, 3}) {
    for (const int pp : {1, 2}) {
      for (const int group : {0, 2}) {
        spec::ParallelSpec parallel = DataParallel(8 / pp, zero_stage);
        parallel.pipeline_parallel_size = pp;
        parallel.zero_group_size = group;
        const StepPrice price = PriceStep(costs, parallel);
        const FastPrice fast = PriceStepFast(costs, parallel);
        EXPECT_NEAR(fast.step_time_s, price.report.step_time_s, 1e-9 * fast.step_time_s);
        EXPECT_NEAR(fast.peak_bytes, static_cast<double>(price.report.peak_bytes),
                    0.01 * fast.peak_bytes)
            << "ZeRO " << zero_stage << " pp " << pp << " group " << group;
      }
    }
  }
}

TEST(ParameterGatheringTest, OverlapHidesAllButOneBucket) {
  JobCosts costs(RoundJob(16));
  spec::ParallelSpec parallel = DataParallel(16, 1);
  const double exposed_s = PriceStep(costs, parallel).report.time.dp_comm_s;
  parallel.overlap_param_gather = true;
  const double overlapped_s = PriceStep(costs, parallel).report.time.dp_comm_s;
  EXPECT_LT(overlapped_s, exposed_s);
}

// Recomputing more layers takes more time and holds less, up to full recomputation of all of them.
TEST(PartialRecomputationTest, MoreRecomputedLayersTakeMoreTimeAndLessMemory) {
  JobCosts costs(RoundJob(4));
  spec::ParallelSpec parallel = DataParallel(2, 1);
  parallel.pipeline_parallel_size = 2;
  parallel.micro_batch_size = 2;
  parallel.recompute = spec::Recompute::kFull;
  double last_s = 0;
  int64_t last_bytes = std::numeric_limits<int64_t>::max();
  for (const int layers : {0, 1, 2, 3, 4}) {
    parallel.recomputed_layers_per_virtual_stage = {layers, layers};
    const StepPrice price = PriceStep(costs, parallel);
    const FastPrice fast = PriceStepFast(costs, parallel);
    EXPECT_GT(price.report.step_time_s, last_s) << layers;
    // The first recomputed layer brings back as much as it had kept.
    EXPECT_LE(price.report.peak_bytes, last_bytes) << layers;
    EXPECT_NEAR(fast.step_time_s, price.report.step_time_s, 1e-9 * last_s);
    EXPECT_NEAR(fast.peak_bytes, static_cast<double>(price.report.peak_bytes),
                0.01 * fast.peak_bytes);
    last_s = price.report.step_time_s;
    last_bytes = price.report.peak_bytes;
  }
  parallel.recomputed_layers_per_virtual_stage.clear();
  EXPECT_DOUBLE_EQ(PriceStep(costs, parallel).report.step_time_s, last_s);
  EXPECT_EQ(PriceStep(costs, parallel).report.peak_bytes, last_bytes);
  parallel.recompute = spec::Recompute::kNone;
  const double plain_s = PriceStep(costs, parallel).report.step_time_s;
  parallel.recompute = spec::Recompute::kFull;
  parallel.recomputed_layers_per_virtual_stage = {0, 0};
  EXPECT_NEAR(PriceStep(costs, parallel).report.step_time_s, plain_s, 1e-12 * plain_s);
}

// A quarter of the layers recomputed: a quarter of the operations that full recomputation adds.
TEST(PartialRecomputationTest, OperationsRunAgainInTheRecomputedLayersAlone) {
  const Job job = RoundJob(1);
  spec::ParallelSpec parallel;
  parallel.recompute = spec::Recompute::kFull;
  const spec::VirtualStage stage = spec::PartitionStages(job.model, parallel)[0];
  const auto num_recomputed = [&] {
    int64_t count = 0;
    for (const spec::Op& op : StageBackwardOps(job.model, job.training, parallel, stage)) {
      if (op.recomputed) ++count;
    }
    return count;
  };
  const int64_t all = num_recomputed();
  parallel.recomputed_layers_per_virtual_stage = {2};
  EXPECT_EQ(num_recomputed() * 4, all);
}

// Slow links: a ring of four takes the time of its transfers, three times keys and values (2 bytes
// each) forward and again backward, with three times their gradients (4 bytes each), less the
// kernels they run beside.
TEST(ContextParallelCostTest, ARingIsBoundByTheBytesThatGoRound) {
  Job job = RoundJob(4);
  job.cluster.intra_node.bandwidth_bytes_per_s = 1e8;
  JobCosts costs(job);
  spec::ParallelSpec parallel;
  parallel.context_parallel_size = 4;
  const spec::StepReport report = PriceStep(costs, parallel).report;
  const double bytes = 2.0 * 256 * 2 * 1024;  // 256 tokens here, keys and values 1024 wide
  const double link_s = 64 * 8 * (3 + 3 + 2 * 3) * bytes / 1e8;  // micro-batches, layers
  EXPECT_LE(report.time.cp_comm_s, link_s);
  EXPECT_GE(report.time.cp_comm_s, link_s - report.time.Compute());
}

TEST(ContextParallelCostTest, FastLinksHideTheRing) {
  Job job = RoundJob(4);
  job.cluster.intra_node.bandwidth_bytes_per_s = 1e15;
  JobCosts costs(job);
  spec::ParallelSpec parallel;
  parallel.context_parallel_size = 4;
  EXPECT_EQ(PriceStep(costs, parallel).report.time.cp_comm_s, 0);
}

}  // namespace
}  // namespace tessera::cost_model
