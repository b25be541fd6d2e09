// Reducing gradients behind the backward pass: earlier, and else the same.
#include <gtest/gtest.h>

#include <algorithm>

#include "engine/train/rank_trainer.h"
#include "tests/engine/op_recorder.h"
#include "tests/testing/conformance_plans.h"
#include "tests/testing/counting_source.h"
#include "tests/testing/run_ranks.h"

namespace tessera::engine {
namespace {

struct OverlapOutcome {
  std::vector<std::vector<float>> weights;        // by rank
  std::vector<std::vector<base::OpRecord>> step;  // by rank: operations of the last step
};

OverlapOutcome TrainAndRecord(spec::Plan plan, bool overlaps) {
  plan.cluster.shared_compute_units = 0;
  plan.parallel.overlap_grad_reduce = overlaps;
  plan.num_devices = spec::WorldSize(plan.parallel);
  EXPECT_TRUE(FindViolations(plan.model, plan.training, plan.parallel, plan.num_devices).empty());
  const testing::CountingSource source(plan.training.sequence_length, plan.model.vocab_size);
  const auto num_ranks = static_cast<size_t>(plan.num_devices);
  OverlapOutcome outcome{std::vector<std::vector<float>>(num_ranks),
                         std::vector<std::vector<base::OpRecord>>(num_ranks)};
  testing::RunRanks(plan.num_devices, [&](Communicator& world) {
    const auto device = MakeRankDevice({}, world);
    RankTrainer trainer(plan, *device, world, source);
    trainer.Step(false);
    OpRecorder recorder;
    trainer.set_observer(&recorder);
    trainer.Step(false);
    trainer.set_observer(nullptr);
    const auto rank = static_cast<size_t>(world.rank());
    const float* const weights = trainer.store().weights().As<float>();
    outcome.weights[rank].assign(weights, weights + trainer.store().layout().num_elements);
    outcome.step[rank] = recorder.records;
  });
  return outcome;
}

bool IsReduction(const base::OpRecord& record) {
  const bool reduces =
      record.kind == base::OpKind::kAllReduce || record.kind == base::OpKind::kReduceScatter;
  return reduces && record.dims[2] == static_cast<int64_t>(spec::Axis::kGradient);
}

// Reductions over the data ranks until the last product of the passes.
int64_t NumHidden(const std::vector<base::OpRecord>& records) {
  const auto last = std::find_if(records.rbegin(), records.rend(), [](const auto& record) {
    return record.kind == base::OpKind::kMatMul;
  });
  return std::count_if(records.begin(), last.base(), IsReduction);
}

// Tied embeddings on one and on two stages, shared key/value heads, token-wise parameters, chunks.
std::vector<spec::ParallelSpec> OverlapLayouts() {
  std::vector<spec::ParallelSpec> layouts = {
      {.data_parallel_size = 2},
      {.data_parallel_size = 2, .zero_stage = 1},
      {.tensor_parallel_size = 4, .data_parallel_size = 2, .sequence_parallel = true},
      {.pipeline_parallel_size = 2, .data_parallel_size = 2},
      {.pipeline_parallel_size = 2,
       .data_parallel_size = 2,
       .virtual_pipeline_size = 2,
       .zero_stage = 1,
       .schedule = spec::ScheduleKind::kInterleaved},
      {.pipeline_parallel_size = 2,
       .data_parallel_size = 2,
       .recompute = spec::Recompute::kFull,
       .schedule = spec::ScheduleKind::kGPipe},
      {.pipeline_parallel_size = 2,
       .data_parallel_size = 2,
       .schedule = spec::ScheduleKind::kZeroBubbleH1}};
  for (spec::ParallelSpec& layout : layouts) {
    layout.vocab_size_multiple = 8;
    layout.bucket_elements = 5000;
  }
  return layouts;
}

TEST(GradientOverlapTest, ReducingBehindThePassGivesTheSameBits) {
  std::string last_model;
  for (testing::NamedPlan& named : testing::ConformancePlans()) {
    if (named.plan.model.name == last_model) continue;
    last_model = named.plan.model.name;
    for (const spec::ParallelSpec& layout : OverlapLayouts()) {
      named.plan.parallel = layout;
      const OverlapOutcome apart = TrainAndRecord(named.plan, /*overlaps=*/false);
      const OverlapOutcome hidden = TrainAndRecord(named.plan, /*overlaps=*/true);
      EXPECT_EQ(hidden.weights, apart.weights) << named.name;
      for (size_t rank = 0; rank < apart.step.size(); ++rank) {
        EXPECT_EQ(NumHidden(apart.step[rank]), 0);
        EXPECT_GT(NumHidden(hidden.step[rank]), 0) << named.name << ", rank " << rank;
        EXPECT_EQ(std::count_if(hidden.step[rank].begin(), hidden.step[rank].end(), IsReduction),
                  std::count_if(apart.step[rank].begin(), apart.step[rank].end(), IsReduction));
      }
    }
  }
}

}  // namespace
}  // namespace tessera::engine
