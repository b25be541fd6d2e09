// Choices that do not change the order of any sum give the same bits.
#include <gtest/gtest.h>

#include <map>
#include <mutex>

#include "engine/train/rank_trainer.h"
#include "tests/testing/conformance_plans.h"
#include "tests/testing/counting_source.h"
#include "tests/testing/run_ranks.h"

namespace tessera::testing {
namespace {

struct TrainingOutcome {
  std::vector<double> losses;
  std::vector<double> norms;
  // Local slices by parameter and tensor-parallel rank, of the first data rank.
  std::map<std::string, std::vector<float>> weights;
  bool operator==(const TrainingOutcome&) const = default;
};

TrainingOutcome Train(spec::Plan plan) {
  plan.num_devices = spec::WorldSize(plan.parallel);
  EXPECT_TRUE(FindViolations(plan.model, plan.training, plan.parallel, plan.num_devices).empty());
  const CountingSource source(plan.training.sequence_length, plan.model.vocab_size);
  TrainingOutcome outcome;
  std::mutex mutex;
  RunRanks(plan.num_devices, [&](engine::Communicator& world) {
    const auto device = engine::MakeRankDevice({}, world);
    engine::RankTrainer trainer(plan, *device, world, source);
    for (int64_t step = 0; step < plan.training.steps; ++step) {
      const engine::StepResult result = trainer.Step(false);
      if (world.rank() != 0) continue;
      outcome.losses.push_back(result.loss);
      outcome.norms.push_back(result.grad_norm);
    }
    if (trainer.coord().data != 0) return;
    const engine::ParameterStore& store = trainer.store();
    const std::lock_guard lock(mutex);
    for (size_t i = 0; i < store.parameters().size(); ++i) {
      const spec::FlatParameter& flat = store.layout().parameters[i];
      const float* const begin = store.weights().As<float>() + flat.offset;
      outcome
          .weights[base::Concat(store.parameters()[i].name, " of tp rank ", trainer.coord().tensor)]
          .assign(begin, begin + flat.num_elements);
    }
  });
  return outcome;
}

// The three models over a few meshes.
std::vector<spec::Plan> CutBasePlans() {
  std::vector<spec::Plan> plans;
  for (const NamedPlan& named : ConformancePlans()) {
    spec::Plan plan = named.plan;
    const bool is_new_model = plans.empty() || plans.back().model.name != plan.model.name;
    if (!is_new_model) continue;
    plan.parallel = {.tensor_parallel_size = 2,
                     .pipeline_parallel_size = 2,
                     .data_parallel_size = 2,
                     .sequence_parallel = true,
                     .vocab_size_multiple = 8,
                     .bucket_elements = 5000};
    plans.push_back(plan);
  }
  return plans;
}

TEST(BitwiseParityTest, SchedulesGiveTheSameBits) {
  for (spec::Plan plan : CutBasePlans()) {
    const TrainingOutcome one_forward_one_backward = Train(plan);
    EXPECT_EQ(one_forward_one_backward.losses.size(), 4U);
    plan.parallel.schedule = spec::ScheduleKind::kGPipe;
    EXPECT_EQ(Train(plan), one_forward_one_backward) << plan.model.name << ", gpipe";
    plan.parallel.schedule = spec::ScheduleKind::kZeroBubbleH1;
    EXPECT_EQ(Train(plan), one_forward_one_backward) << plan.model.name << ", zb-h1";
    plan.parallel.schedule = spec::ScheduleKind::kInterleaved;
    plan.parallel.virtual_pipeline_size = 2;
    // The gradient norm adds per rank, and the ranks hold other layers: it may round elsewhere.
    plan.training.optimizer.clip_grad = 0;
    const TrainingOutcome interleaved = Train(plan);
    plan.parallel.schedule = spec::ScheduleKind::kOneForwardOneBackward;
    plan.parallel.virtual_pipeline_size = 1;
    const TrainingOutcome unclipped = Train(plan);
    EXPECT_EQ(interleaved.losses, unclipped.losses) << plan.model.name;
    EXPECT_EQ(interleaved.weights, unclipped.weights) << plan.model.name;
  }
}

TEST(BitwiseParityTest, TransfersAndGroupsGiveTheSameBits) {
  for (spec::Plan plan : CutBasePlans()) {
    plan.parallel.schedule = spec::ScheduleKind::kInterleaved;
    plan.parallel.virtual_pipeline_size = 2;
    plan.parallel.data_parallel_size = 1;  // eight micro-batches
    for (const bool sequence_parallel : {true, false}) {
      plan.parallel.sequence_parallel = sequence_parallel;
      const TrainingOutcome plain = Train(plan);
      spec::Plan other = plan;
      other.parallel.microbatch_group_size = 3;
      EXPECT_EQ(Train(other), plain) << plan.model.name << ", groups of 3";
      other.parallel.overlap_pp_comm = true;
      EXPECT_EQ(Train(other), plain) << plan.model.name << ", overlapped transfers";
      other.parallel.scatter_gather_transfers = true;
      EXPECT_EQ(Train(other), plain) << plan.model.name << ", transfers in parts";
    }
  }
}

TEST(BitwiseParityTest, HidingTensorCommunicationGivesTheSameBits) {
  for (spec::Plan plan : CutBasePlans()) {
    for (const auto schedule :
         {spec::ScheduleKind::kOneForwardOneBackward, spec::ScheduleKind::kZeroBubbleH1}) {
      for (const bool sequence_parallel : {true, false}) {
        plan.parallel.schedule = schedule;
        plan.parallel.sequence_parallel = sequence_parallel;
        plan.parallel.overlap_tp_comm = false;
        const TrainingOutcome exposed = Train(plan);
        plan.parallel.overlap_tp_comm = true;
        EXPECT_EQ(Train(plan), exposed) << plan.model.name << " " << ToString(schedule);
      }
    }
  }
}

TEST(BitwiseParityTest, RecomputationGivesTheSameBits) {
  for (spec::Plan plan : CutBasePlans()) {
    for (const auto attention : {spec::AttentionKind::kUnfused, spec::AttentionKind::kFlash}) {
      plan.parallel.attention = attention;
      plan.parallel.recompute = spec::Recompute::kNone;
      const TrainingOutcome kept = Train(plan);
      plan.parallel.recompute = spec::Recompute::kSelective;
      EXPECT_EQ(Train(plan), kept) << plan.model.name << ", selective";
      plan.parallel.recompute = spec::Recompute::kFull;
      EXPECT_EQ(Train(plan), kept) << plan.model.name << ", full";
      plan.parallel.recomputed_layers_per_virtual_stage = {1, 0};
      EXPECT_EQ(Train(plan), kept) << plan.model.name << ", one layer";
      plan.parallel.recomputed_layers_per_virtual_stage.clear();
    }
  }
}

TEST(BitwiseParityTest, ShardingTheOptimizerGivesTheSameBits) {
  for (spec::Plan plan : CutBasePlans()) {
    plan.training.optimizer.clip_grad = 0;  // the norm's partial sums are cut elsewhere
    plan.parallel.zero_stage = 0;
    const TrainingOutcome whole = Train(plan);
    plan.parallel.zero_stage = 1;
    const TrainingOutcome sharded = Train(plan);
    EXPECT_EQ(sharded.losses, whole.losses) << plan.model.name;
    EXPECT_EQ(sharded.weights, whole.weights) << plan.model.name;
  }
}

TEST(BitwiseParityTest, ARepeatedRunGivesTheSameBits) {
  for (const spec::Plan& plan : CutBasePlans()) EXPECT_EQ(Train(plan), Train(plan));
}

}  // namespace
}  // namespace tessera::testing
