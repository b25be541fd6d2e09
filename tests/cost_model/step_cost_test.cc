#include "cost_model/step_cost.h"

#include <gtest/gtest.h>

#include <string>

#include "tests/cost_model/test_jobs.h"

namespace tessera::cost_model {
namespace {

spec::ParallelSpec Layout(int tp, int pp, int dp, int vpp = 1) {
  spec::ParallelSpec parallel;
  parallel.tensor_parallel_size = tp;
  parallel.pipeline_parallel_size = pp;
  parallel.data_parallel_size = dp;
  parallel.virtual_pipeline_size = vpp;
  parallel.sequence_parallel = tp > 1;
  if (vpp > 1) parallel.schedule = spec::ScheduleKind::kInterleaved;
  return parallel;
}

// A realistic cluster, so that no term vanishes.
spec::ClusterSpec LatentCluster() {
  spec::ClusterSpec cluster = RoundCluster();
  cluster.device.launch_overhead_s = 5e-6;
  cluster.device.matmul_efficiency = {{1e8, 0.1}, {1e11, 0.7}};
  cluster.device.memory_efficiency = {{1e5, 0.2}, {1e8, 0.8}};
  cluster.intra_node.latency_s = 3e-6;
  cluster.inter_node.latency_s = 8e-6;
  return cluster;
}

std::vector<spec::ParallelSpec> ManyLayouts() {
  std::vector<spec::ParallelSpec> layouts;
  spec::ParallelSpec gpipe = Layout(2, 4, 2);
  gpipe.schedule = spec::ScheduleKind::kGPipe;
  for (spec::ParallelSpec layout : {Layout(1, 1, 16), Layout(8, 1, 2), Layout(2, 4, 2), gpipe,
                                    Layout(1, 8, 2), Layout(2, 2, 4, 2), Layout(1, 4, 4, 2)}) {
    for (const int zero_stage : {0, 1}) {
      for (const auto recompute : {spec::Recompute::kNone, spec::Recompute::kFull}) {
        layout.zero_stage = zero_stage;
        layout.recompute = recompute;
        layouts.push_back(layout);
      }
    }
  }
  return layouts;
}

TEST(StepCostTest, TimeTermsSumToTheStep) {
  Job job = RoundJob(16);
  job.cluster = LatentCluster();
  JobCosts costs(job);
  for (const spec::ParallelSpec& layout : ManyLayouts()) {
    const spec::StepReport report = PriceStep(costs, layout).report;
    const spec::TimeBreakdown& time = report.time;
    EXPECT_DOUBLE_EQ(time.Total(), report.step_time_s);
    for (const double term :
         {time.forward_s, time.backward_s, time.recompute_s, time.tp_comm_s, time.pp_comm_s,
          time.dp_comm_s, time.bubble_s, time.optimizer_s, time.other_s}) {
      EXPECT_GE(term, 0);
    }
  }
}

TEST(StepCostTest, TheFastPriceIsTheFullPrice) {
  Job job = RoundJob(16);
  job.cluster = LatentCluster();
  JobCosts costs(job);
  for (const spec::ParallelSpec& layout : ManyLayouts()) {
    const FastPrice fast = PriceStepFast(costs, layout);
    const spec::StepReport report = PriceStep(costs, layout).report;
    EXPECT_NEAR(fast.step_time_s, report.step_time_s, 1e-9 * report.step_time_s);
    // No more than the padding of buckets apart.
    EXPECT_NEAR(fast.peak_bytes, static_cast<double>(report.peak_bytes),
                1e-3 * static_cast<double>(report.peak_bytes));
  }
}

// Narayanan et al. 2021, arXiv:2104.04473: bubble (p - 1) / (v m) of the ideal time, for stages
// alike and transfers that take no time.
TEST(StepCostTest, BubbleIsThePublishedOne) {
  Job job = RoundJob(4);
  job.model.vocab_size = 1;  // so that the head weighs next to nothing
  job.cluster.intra_node.bandwidth_bytes_per_s = 1e18;
  JobCosts costs(job);
  for (const int v : {1, 2}) {
    const spec::TimeBreakdown time = PriceStep(costs, Layout(1, 4, 1, v)).report.time;
    const double busy_s = time.Compute() + time.tp_comm_s;
    EXPECT_NEAR(time.bubble_s / busy_s, 3.0 / (64 * v), 0.05 * 3.0 / (64 * v)) << "v " << v;
  }
}

TEST(StepCostTest, OneDeviceTakesTheSumOfItsOperations) {
  Job job = RoundJob(1);
  JobCosts costs(job);
  const spec::ParallelSpec layout = Layout(1, 1, 1);
  const spec::VirtualStage stage = spec::PartitionStages(job.model, layout)[0];
  double forward_s = 0, backward_s = 0;
  for (const spec::Op& op : spec::StageForwardOps(job.model, job.training, layout, stage)) {
    // The larger of both, as no attention here keeps its probabilities.
    forward_s +=
        std::max(spec::FlopsOf(op.record) / 100e12, spec::MemoryBytesOf(op.record, 2) / 1e12);
  }
  for (const spec::Op& op : spec::StageBackwardOps(job.model, job.training, layout, stage)) {
    backward_s +=
        std::max(spec::FlopsOf(op.record) / 100e12, spec::MemoryBytesOf(op.record, 2) / 1e12);
  }
  const spec::TimeBreakdown time = PriceStep(costs, layout).report.time;
  EXPECT_NEAR(time.forward_s, 64 * forward_s, 1e-9);
  EXPECT_NEAR(time.backward_s, 64 * backward_s, 1e-9);
  EXPECT_NEAR(time.tp_comm_s + time.pp_comm_s + time.dp_comm_s + time.bubble_s, 0, 1e-12);
}

TEST(StepCostTest, RecomputationRunsForwardWorkAgain) {
  Job job = RoundJob(1);
  JobCosts costs(job);
  spec::ParallelSpec layout = Layout(1, 1, 1);
  layout.attention = spec::AttentionKind::kUnfused;
  const spec::StepReport none = PriceStep(costs, layout).report;
  EXPECT_DOUBLE_EQ(none.hardware_flops, none.model_flops);
  layout.recompute = spec::Recompute::kFull;
  const spec::StepReport full = PriceStep(costs, layout).report;
  // Every layer's forward products but the last, 2 t h f FLOPs each: by hand, t tokens,
  // 6 t h^2 + 2 t h^2 + 8 t h^2 + 4 t s h for each of eight layers.
  const double t = 64.0 * 1024, h = 1024, s = 1024;
  EXPECT_DOUBLE_EQ(full.hardware_flops - full.model_flops, 8 * (16 * t * h * h + 4 * t * s * h));
  EXPECT_GT(full.time.recompute_s, 0);
  EXPECT_DOUBLE_EQ(full.time.forward_s, none.time.forward_s);
}

TEST(StepCostTest, AFasterNetworkIsNeverSlower) {
  for (const spec::ParallelSpec& layout : ManyLayouts()) {
    double previous_s = 1e9;
    for (const double factor : {1.0, 2.0, 8.0}) {
      Job job = RoundJob(16);
      job.cluster = LatentCluster();
      job.cluster.intra_node.bandwidth_bytes_per_s *= factor;
      job.cluster.inter_node.bandwidth_bytes_per_s *= factor;
      JobCosts costs(job);
      const double step_s = PriceStep(costs, layout).report.step_time_s;
      EXPECT_LE(step_s, previous_s);
      previous_s = step_s;
    }
  }
}

TEST(StepCostTest, OverlapHidesAllButWhatDoesNotFit) {
  EXPECT_DOUBLE_EQ(ExposedPartsSeconds(10, 10, 5, /*overlaps=*/false, 0), 10);
  EXPECT_DOUBLE_EQ(ExposedPartsSeconds(10, 10, 100, true, 0), 1);  // the last bucket
  EXPECT_DOUBLE_EQ(ExposedPartsSeconds(10, 10, 5, true, 0), 10 - 5 * 0.9);
  // Beside nine buckets computing takes a fifth longer: in 9 s it does the work of 7.5.
  EXPECT_DOUBLE_EQ(ExposedPartsSeconds(10, 10, 100, true, 0.2), 1 + 9 - 7.5);
}

// Ranks that share one core take as long together as one rank that does all the work.
TEST(StepCostTest, RanksOnOneCoreTakeTurns) {
  Job job = RoundJob(1);
  job.cluster.shared_compute_units = 1;
  JobCosts alone(job);
  const spec::TimeBreakdown one = PriceStep(alone, Layout(1, 1, 1)).report.time;
  job.num_devices = 4;
  JobCosts shared(job);
  for (const spec::ParallelSpec& layout : {Layout(1, 1, 4), Layout(1, 4, 1)}) {
    const spec::TimeBreakdown four = PriceStep(shared, layout).report.time;
    // A pipeline's ramps take turns too: no core idles, so its bubble is work of others.
    EXPECT_NEAR(four.Compute() + four.bubble_s, one.Compute(), 0.02 * one.Compute());
  }
}

// Where ranks share cores a transfer may cost nothing; a plan's file takes no time below zero.
TEST(StepCostTest, NoTermRoundsBelowZeroOnSharedCores) {
  Job job = RoundJob(4);
  job.cluster.shared_compute_units = 2;
  job.training.precision = spec::Precision::kFp32;
  for (int step = 0; step < 40; ++step) {
    job.cluster.device.peak_flops_per_s[base::DType::kFloat32] = 1e9 * (50 + 0.7 * step);
    job.cluster.intra_node.bandwidth_bytes_per_s = 1e8 * (20 + 1.3 * step);
    JobCosts costs(job);
    for (const auto kind : {spec::ScheduleKind::kGPipe, spec::ScheduleKind::kOneForwardOneBackward,
                            spec::ScheduleKind::kZeroBubbleH1}) {
      spec::ParallelSpec layout = Layout(2, 2, 1);
      layout.schedule = kind;
      layout.micro_batch_size = 2 << step % 3;
      const spec::TimeBreakdown time = PriceStep(costs, layout).report.time;
      EXPECT_GE(time.pp_comm_s, 0) << ToString(kind);
      EXPECT_GE(time.dp_comm_s, 0) << ToString(kind);
    }
  }
}

// Once a pipeline is full, further rounds of micro-batches take as long as the rounds before them:
// in a schedule that is played whole, and in one far longer.
TEST(StepCostTest, RoundsOnSharedCoresTakeAsLongHoweverMany) {
  Job job = RoundJob(4);
  job.cluster.shared_compute_units = 3;
  job.cluster.intra_node.latency_s = 1e-4;
  for (const auto kind : {spec::ScheduleKind::kGPipe, spec::ScheduleKind::kOneForwardOneBackward}) {
    spec::ParallelSpec layout = Layout(1, 4, 1);
    layout.schedule = kind;
    const auto step_s = [&](int64_t num_microbatches) {
      job.training.global_batch_size = num_microbatches;
      JobCosts costs(job);
      return PriceStep(costs, layout).report.step_time_s;
    };
    const double round_s = step_s(52) - step_s(48);
    EXPECT_NEAR(step_s(402) - step_s(398), round_s, 1e-6 * round_s) << ToString(kind);
    EXPECT_NEAR(step_s(100'002) - step_s(50), (100'002 - 50) / 4 * round_s, 1e-6 * 25e3 * round_s)
        << ToString(kind);
  }
}

TEST(StepCostTest, AnOptimizerOnAHostOfUnknownSpeedHasNoPrice) {
  Job job = RoundJob(1);
  spec::ParallelSpec layout;
  EXPECT_TRUE(FindUnpriced(job, layout).empty());
  layout.offload_optimizer = true;
  const auto violations = FindUnpriced(job, layout);
  ASSERT_EQ(violations.size(), 1u);
  EXPECT_EQ(violations[0].constraint, "optimizer offload");
  job.cluster.host = {.device_link_bandwidth_bytes_per_s = 25e9,
                      .memory_bandwidth_bytes_per_s = 200e9};
  EXPECT_TRUE(FindUnpriced(job, layout).empty());
}

}  // namespace
}  // namespace tessera::cost_model
