#include "engine/train/op_profile.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

#include "engine/train/rank_trainer.h"
#include "tests/testing/counting_source.h"
#include "tests/testing/run_ranks.h"

namespace tessera::engine {
namespace {

using base::OpKind;
using base::OpRecord;

spec::Plan ProfiledPlan() {
  spec::Plan plan{
      .model = {.name = "small",
                .num_layers = 2,
                .hidden_size = 16,
                .num_attention_heads = 2,
                .num_key_value_heads = 2,
                .head_dim = 8,
                .ffn_hidden_size = 32,
                .vocab_size = 64,
                .max_sequence_length = 8},
      .parallel = {.tensor_parallel_size = 2, .pipeline_parallel_size = 2, .micro_batch_size = 2},
      .num_devices = 4,
      .threads_per_rank = 1};
  plan.training = {.global_batch_size = 4,
                   .sequence_length = 8,
                   .steps = 4,
                   .precision = spec::Precision::kFp32};
  return plan;
}

class Counter : public base::OpObserver {
 public:
  void OnOpBegin(const OpRecord& record) override { ++counts[ToString(record)]; }
  void OnOpEnd(const OpRecord& /*record*/) override {}
  std::map<std::string, int64_t> counts;
};

TEST(OpProfileTest, CountsEveryOperationOfEveryStepAndNoTimeTwice) {
  const spec::Plan plan = ProfiledPlan();
  const testing::CountingSource source(8, 64);
  testing::RunRanks(plan.num_devices, [&](Communicator& world) {
    const auto device = MakeRankDevice({}, world);
    RankTrainer trainer(plan, *device, world, source);
    Counter counter;
    trainer.set_observer(&counter);
    trainer.Step(false);
    OpProfiler profiler(device->backend());
    trainer.set_observer(&profiler);
    double steps_s = 0;
    for (int step = 0; step < 3; ++step) {
      profiler.BeginStep();
      const StepResult result = trainer.Step(false);
      const bool counts = step > 0;
      profiler.EndStep(trainer.last_mark_times_s(), result.step_time_s, counts);
      if (counts) steps_s += result.step_time_s;
    }
    trainer.set_observer(nullptr);
    const OpProfile profile = profiler.Take();
    EXPECT_EQ(profile.num_steps, 2);
    EXPECT_DOUBLE_EQ(profile.steps_s, steps_s);
    std::map<std::string, int64_t> counts;
    double in_ops_s = 0;
    double previous_s = profile.ops.front().seconds;
    for (const OpUse& use : profile.ops) {
      counts[ToString(use.record)] = use.count / 2;
      in_ops_s += use.seconds;
      EXPECT_LE(use.seconds, previous_s);
      previous_s = use.seconds;
    }
    EXPECT_EQ(counts, counter.counts);
    EXPECT_GT(in_ops_s, 0);
    EXPECT_LE(in_ops_s, steps_s);
    double in_groups_s = 0;
    for (const double group_s : SecondsByGroup(profile)) in_groups_s += group_s;
    EXPECT_NEAR(in_groups_s, in_ops_s, 1e-9);
  });
}

TEST(OpProfileTest, WhatIsCalledOutsideOfStepsIsNotSeen) {
  const auto backend = kernels::MakeCpuBackend(1);
  OpProfiler profiler(*backend);
  backend->set_observer(&profiler);
  float value = 1;
  backend->Fill(&value, 1, 2.0F);
  profiler.BeginStep();
  backend->Mark();
  backend->Fill(&value, 1, 3.0F);
  profiler.EndStep(backend->TakeMarks(), 1, /*counts=*/true);
  backend->Fill(&value, 1, 4.0F);
  ASSERT_EQ(profiler.Take().ops.size(), 1U);
  EXPECT_EQ(profiler.Take().ops[0].count, 1);
}

TEST(OpProfileTest, RatesAreWorkOverTime) {
  spec::Plan plan = ProfiledPlan();
  plan.cluster.device.peak_flops_per_s = {{base::DType::kFloat32, 1e9}};
  plan.cluster.device.memory_bandwidth_bytes_per_s = 1e8;
  // 2 m n k = 48,000 FLOPs in a call of 100 us; (m k + k n + m n) * 4 bytes in the same time.
  const OpUse product = {{OpKind::kMatMul, {20, 30, 40}}, 10, 1e-3};
  const OpRates rates = RatesOf(product, plan);
  EXPECT_DOUBLE_EQ(rates.flops_per_s, 48e7);
  EXPECT_DOUBLE_EQ(rates.bytes_per_s, (20 * 40 + 40 * 30 + 20 * 30) * 4 * 1e4);
  EXPECT_DOUBLE_EQ(rates.share_of_peak, rates.bytes_per_s / 1e8);  // nearer than 0.48

  // A rank of a ring of 4 sends 2 * 3/4 of the bytes.
  const OpUse reduction = {
      {OpKind::kAllReduce, {1000, 4, static_cast<int64_t>(spec::Axis::kTensor)}}, 2, 1e-3};
  EXPECT_DOUBLE_EQ(RatesOf(reduction, plan).bytes_per_s, 2 * 1.5 * 4000 / 1e-3);
  // In bf16 the same elements are half as many bytes, of gradients as many as before.
  plan.training.precision = spec::Precision::kBf16;
  EXPECT_DOUBLE_EQ(RatesOf(reduction, plan).bytes_per_s, 2 * 1.5 * 2000 / 1e-3);
  OpUse gradients = reduction;
  gradients.record.dims[2] = static_cast<int64_t>(spec::Axis::kGradient);
  EXPECT_DOUBLE_EQ(RatesOf(gradients, plan).bytes_per_s, 2 * 1.5 * 4000 / 1e-3);
}

TEST(OpProfileTest, GroupsAreThoseOfAStepReport) {
  const auto along = [](OpKind kind, spec::Axis axis) {
    return GroupOf({kind, {8, 2, static_cast<int64_t>(axis)}});
  };
  EXPECT_EQ(GroupOf({OpKind::kMatMul, {1, 1, 1}}), OpGroup::kCompute);
  EXPECT_EQ(GroupOf({OpKind::kAdamW, {1}}), OpGroup::kOptimizer);
  EXPECT_EQ(along(OpKind::kAllReduce, spec::Axis::kTensor), OpGroup::kTensorComm);
  EXPECT_EQ(along(OpKind::kSend, spec::Axis::kPipeline), OpGroup::kPipelineComm);
  EXPECT_EQ(along(OpKind::kReduceScatter, spec::Axis::kShard), OpGroup::kDataComm);
  EXPECT_EQ(along(OpKind::kAllToAll, spec::Axis::kExpert), OpGroup::kExpertComm);
  const spec::TimeBreakdown time{.forward_s = 1,
                                 .backward_s = 2,
                                 .recompute_s = 4,
                                 .tp_comm_s = 8,
                                 .pp_comm_s = 16,
                                 .bubble_s = 32};
  EXPECT_EQ(PredictedSeconds(OpGroup::kCompute, time), 7);
  EXPECT_EQ(PredictedSeconds(OpGroup::kTensorComm, time), 8);
  EXPECT_EQ(PredictedSeconds(OpGroup::kPipelineComm, time), 48);
}

}  // namespace
}  // namespace tessera::engine
