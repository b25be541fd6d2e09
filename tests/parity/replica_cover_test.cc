// No layout gives a false alarm: what several ranks hold is the same to the bit on all of them.
#include <gtest/gtest.h>

#include "engine/train/rank_trainer.h"
#include "tests/testing/counting_source.h"
#include "tests/testing/layout_cover.h"
#include "tests/testing/run_ranks.h"

namespace tessera::testing {
namespace {

TEST(ReplicaCoverTest, EveryLayoutKeepsItsReplicasEqual) {
  int64_t num_with_replicas = 0;
  for (const CoverTraining& training : CoverOfLayouts().trainings) {
    SCOPED_TRACE(training.name);
    const spec::Plan& plan = training.plan;
    const CountingSource source(plan.training.sequence_length, plan.model.vocab_size);
    EXPECT_NO_THROW(RunRanks(plan.num_devices, [&](engine::Communicator& world) {
      const auto device = engine::MakeRankDevice({}, world);
      engine::RankTrainer trainer(plan, *device, world, source);
      trainer.CheckReplicas(engine::ReplicaKind::kWeights);
      trainer.Step(false);
      trainer.CheckReplicas(engine::ReplicaKind::kGradients);
      const auto check = trainer.CheckReplicas(engine::ReplicaKind::kWeights);
      if (world.rank() == 0 && check.num_replicated > 0) ++num_with_replicas;
    }));
  }
  EXPECT_GT(num_with_replicas, static_cast<int64_t>(CoverOfLayouts().trainings.size()) / 2);
}

}  // namespace
}  // namespace tessera::testing
