// Sharding optimizer state, gradients and parameters changes no result.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "cost_model/base/check.h"
#include "tests/parity/mesh.h"
#include "tests/testing/conformance_plans.h"
#include "tests/testing/trained_model.h"

namespace tessera::testing {
namespace {

constexpr double kZeroTolerance = 2e-5;

TrainedModel TrainPlan(spec::Plan plan) {
  plan.num_devices = spec::WorldSize(plan.parallel);
  EXPECT_TRUE(FindViolations(plan.model, plan.training, plan.parallel, plan.num_devices).empty());
  return TrainOnThreads(plan);
}

void ExpectNear(const GlobalTensors& tensors, const GlobalTensors& expected, double tolerance) {
  ASSERT_EQ(tensors.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    // Without rotary positions it has no gradient but for rounding.
    if (name.find("attention.k.bias") != std::string::npos) continue;
    float largest = 0;
    for (const float value : tensor.values) largest = std::max(largest, std::abs(value));
    const GlobalTensor& got = tensors.at(name);
    EXPECT_EQ(got.num_holders_that_differ, 0) << name;
    for (size_t i = 0; i < tensor.values.size(); ++i) {
      ASSERT_TRUE(got.is_held[i]) << name << ", element " << i;
      ASSERT_NEAR(got.values[i], tensor.values[i], tolerance * largest)
          << name << ", element " << i;
    }
  }
}

void ExpectSameBits(const GlobalTensors& tensors, const GlobalTensors& expected) {
  ASSERT_EQ(tensors.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    EXPECT_EQ(tensors.at(name).num_holders_that_differ, 0) << name;
    EXPECT_EQ(tensors.at(name).is_held, tensor.is_held) << name;
    EXPECT_EQ(tensors.at(name).values, tensor.values) << name;
  }
}

void ExpectClose(const TrainedModel& trained, const TrainedModel& expected) {
  for (size_t i = 0; i < expected.losses.size(); ++i) {
    EXPECT_NEAR(trained.losses[i], expected.losses[i], kZeroTolerance * expected.losses[i]);
    EXPECT_NEAR(trained.grad_norms[i], expected.grad_norms[i],
                kZeroTolerance * expected.grad_norms[i]);
  }
  ExpectNear(trained.first_gradients, expected.first_gradients, kZeroTolerance);
  // AdamW divides small gradients by their own size, and their rounding with them.
  ExpectNear(trained.weights, expected.weights, 10 * kZeroTolerance);
}

// The three models: tied embeddings, shared key/value heads, biases of rotary projections.
std::vector<spec::Plan> ShardedBasePlans() {
  std::vector<spec::Plan> plans;
  for (const NamedPlan& named : ConformancePlans()) {
    if (!plans.empty() && plans.back().model.name == named.plan.model.name) continue;
    plans.push_back(named.plan);
    plans.back().training.steps = 2;
    plans.back().training.optimizer.adam_eps = 1e-5;
    plans.back().training.optimizer.clip_grad = 0;  // the norm's partial sums are cut elsewhere
    plans.back().parallel = {.vocab_size_multiple = 8, .bucket_elements = 5000};
  }
  return plans;
}

std::string NameOf(const spec::Plan& plan) {
  const spec::ParallelSpec& parallel = plan.parallel;
  return base::Concat(plan.model.name, " tp", parallel.tensor_parallel_size, " pp",
                      parallel.pipeline_parallel_size, " vpp", parallel.virtual_pipeline_size,
                      " dp", parallel.data_parallel_size, " zero ", parallel.zero_stage,
                      " in groups of ", parallel.zero_group_size);
}

// One micro-batch: shards are what the sum over the data ranks is without them.
TEST(ZeroParityTest, EveryStageGivesTheSameBits) {
  for (spec::Plan plan : ShardedBasePlans()) {
    plan.parallel.data_parallel_size = 4;
    plan.parallel.micro_batch_size = 2;
    plan.parallel.zero_stage = 0;
    const TrainedModel whole = TrainPlan(plan);
    for (const int zero_stage : {1, 2, 3}) {
      for (const bool overlaps : {false, true}) {
        plan.parallel.zero_stage = zero_stage;
        plan.parallel.overlap_grad_reduce = overlaps;
        plan.parallel.overlap_param_gather = overlaps && zero_stage < 3;
        plan.cluster.shared_compute_units = overlaps ? 0 : 1;
        SCOPED_TRACE(base::Concat(NameOf(plan), overlaps ? ", overlapped" : ""));
        const TrainedModel sharded = TrainPlan(plan);
        EXPECT_EQ(sharded.losses, whole.losses);
        ExpectSameBits(sharded.first_gradients, whole.first_gradients);
        ExpectSameBits(sharded.weights, whole.weights);
      }
    }
  }
}

// Several micro-batches, tensor ranks and stages: other orders of the same sums.
TEST(ZeroParityTest, EveryStageTrainsAlikeOnEveryMesh) {
  for (spec::Plan plan : ShardedBasePlans()) {
    for (const Mesh& mesh : {Mesh{.dp = 2}, Mesh{.tp = 2, .dp = 2}, Mesh{.pp = 2, .dp = 2},
                             Mesh{.tp = 2, .pp = 2, .dp = 2}, Mesh{.pp = 2, .dp = 2, .vpp = 2}}) {
      plan.parallel.tensor_parallel_size = mesh.tp;
      plan.parallel.pipeline_parallel_size = mesh.pp;
      plan.parallel.data_parallel_size = mesh.dp;
      plan.parallel.virtual_pipeline_size = mesh.vpp;
      plan.parallel.schedule = mesh.vpp > 1 ? spec::ScheduleKind::kInterleaved
                                            : spec::ScheduleKind::kOneForwardOneBackward;
      plan.parallel.sequence_parallel = mesh.tp > 1;
      plan.parallel.zero_stage = 0;
      const TrainedModel whole = TrainPlan(plan);
      for (const int zero_stage : {2, 3}) {
        plan.parallel.zero_stage = zero_stage;
        SCOPED_TRACE(NameOf(plan));
        ExpectClose(TrainPlan(plan), whole);
      }
    }
  }
}

// GPipe finds the head's parameters gone when all micro-batches have gone forward.
TEST(ZeroParityTest, GPipeGathersTheHeadAgain) {
  for (spec::Plan plan : ShardedBasePlans()) {
    plan.parallel.data_parallel_size = 2;
    plan.parallel.schedule = spec::ScheduleKind::kGPipe;
    plan.parallel.pipeline_parallel_size = 2;
    plan.parallel.zero_stage = 1;
    const TrainedModel whole = TrainPlan(plan);
    plan.parallel.zero_stage = 3;
    ExpectClose(TrainPlan(plan), whole);
  }
}

TEST(ZeroParityTest, SmallerShardGroupsTrainAlike) {
  for (spec::Plan plan : ShardedBasePlans()) {
    plan.parallel.data_parallel_size = 4;
    plan.parallel.zero_stage = 0;
    const TrainedModel whole = TrainPlan(plan);
    for (const int zero_stage : {1, 2, 3}) {
      for (const int group : {1, 2}) {
        plan.parallel.zero_stage = zero_stage;
        plan.parallel.zero_group_size = group;
        SCOPED_TRACE(NameOf(plan));
        ExpectClose(TrainPlan(plan), whole);
      }
    }
  }
}

}  // namespace
}  // namespace tessera::testing
