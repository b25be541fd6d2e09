// Steps whose numbers are none: what is told of them, and what becomes of the training.
#include "engine/train/fault_finder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <span>

#include "tests/engine/small_training.h"

namespace tessera::engine {
namespace {

using test::SmallPlan;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr float kFloatNan = std::numeric_limits<float>::quiet_NaN();

// The weights of a parameter on this rank; empty where it is not here. `state` is of fp32 on a CPU:
// the weights themselves.
std::span<float> WeightsOf(const TrainState& state, const std::string& name) {
  for (size_t i = 0; i < state.parameters.size(); ++i) {
    if (state.parameters[i].name != name) continue;
    const spec::FlatParameter& flat = state.layout.parameters[i];
    return {state.weights + flat.offset, static_cast<size_t>(flat.num_elements)};
  }
  return {};
}

// Trains on ranks whose weights `change(rank, state)` alters before step 2; returns how that ends.
template <typename Change>
std::string MessageOf(const spec::ParallelSpec& parallel, const Change& change) {
  const spec::Plan plan = SmallPlan(parallel);
  const testing::CountingSource source(plan.training.sequence_length, plan.model.vocab_size);
  std::vector<std::string> messages(static_cast<size_t>(plan.num_devices));
  testing::RunRanks(plan.num_devices, [&](Communicator& world) {
    const auto device = MakeRankDevice({}, world);
    RankTrainer trainer(plan, *device, world, source);
    trainer.Step(false);
    const HostState host = trainer.State();
    change(world.rank(), host.state());
    try {
      trainer.Step(false);
    } catch (const DivergedError& error) {
      messages[static_cast<size_t>(world.rank())] = error.what();
    }
  });
  for (const std::string& message : messages) EXPECT_EQ(message, messages.front());
  return messages.front();
}

// Ranks by tp, then dp, then pp: rank 5 is tp 1, dp 0, pp 1.
TEST(FaultFinderTest, NamesTheRankWhoseParameterIsNoNumber) {
  const spec::ParallelSpec parallel = {
      .tensor_parallel_size = 2, .pipeline_parallel_size = 2, .data_parallel_size = 2};
  const std::string message = MessageOf(parallel, [](int rank, const TrainState& state) {
    if (rank == 5) WeightsOf(state, "layers.2.mlp.down.weight")[3] = kFloatNan;
  });
  EXPECT_THAT(message,
              AllOf(HasSubstr("step 2"), HasSubstr("the parameter layers.2.mlp.down.weight "
                                                   "on rank 5 (pp 1 dp 0 cp 0 tp 1)")));
}

TEST(FaultFinderTest, FindsAParameterThatIsKeptInShards) {
  const std::string message =
      MessageOf({.data_parallel_size = 2, .zero_stage = 3}, [](int rank, const TrainState& state) {
        ASSERT_TRUE(state.has_owned_weights_alone);
        if (rank == 1) state.weights[0] = kFloatNan;
      });
  EXPECT_THAT(message, AllOf(HasSubstr("the parameter "), HasSubstr("on rank 1")));
}

// Weights that are numbers, but so large that products of them are none in fp32: the first layer
// that has such is told, not those behind it, which are none as well.
TEST(FaultFinderTest, NamesTheFirstLayerWhoseOutputOverflows) {
  for (const spec::ParallelSpec& parallel :
       {spec::ParallelSpec{}, spec::ParallelSpec{.pipeline_parallel_size = 2},
        spec::ParallelSpec{.tensor_parallel_size = 2, .recompute = spec::Recompute::kFull}}) {
    const std::string message = MessageOf(parallel, [](int /*rank*/, const TrainState& state) {
      for (const char* name : {"layers.2.mlp.up.weight", "layers.2.mlp.down.weight",
                               "layers.3.mlp.up.weight", "layers.3.mlp.down.weight"}) {
        std::ranges::fill(WeightsOf(state, name), 1e30F);
      }
    });
    EXPECT_THAT(message, AllOf(HasSubstr("the output of layer 2 in micro-batch 0 on rank"),
                               Not(HasSubstr("parameter"))));
  }
}

TEST(StepGuardTrainingTest, ASkippedStepChangesNoWeightAndTheNextOneTrains) {
  const spec::Plan plan = SmallPlan({.data_parallel_size = 2});
  const testing::CountingSource source(plan.training.sequence_length, plan.model.vocab_size);
  testing::RunRanks(plan.num_devices, [&](Communicator& world) {
    const auto device = MakeRankDevice({}, world);
    RankTrainer trainer(plan, *device, world, source);
    trainer.SetGuard({.on_nan = NanAction::kSkip, .most_skipped_steps = 1});
    trainer.Step(false);
    const HostState host = trainer.State();
    const TrainState& state = host.state();
    const std::vector<float> kept(state.weights, state.weights + NumWeights(state));
    float& broken = WeightsOf(state, "final_norm.weight")[0];
    const float value = broken;
    broken = kFloatNan;
    StepResult result = trainer.Step(false);
    EXPECT_TRUE(result.skipped);
    EXPECT_THAT(result.anomaly, HasSubstr("final_norm.weight"));
    EXPECT_EQ(result.step, 2);
    EXPECT_EQ(result.consumed_samples, 8);
    broken = value;
    EXPECT_TRUE(std::equal(kept.begin(), kept.end(), state.weights));
    result = trainer.Step(false);
    EXPECT_FALSE(result.skipped);
    EXPECT_EQ(result.anomaly, "");
    EXPECT_FALSE(std::equal(kept.begin(), kept.end(), state.weights));
    // One more than may be skipped in a row.
    broken = kFloatNan;
    EXPECT_TRUE(trainer.Step(false).skipped);
    EXPECT_THROW(trainer.Step(false), DivergedError);
  });
}

TEST(StepGuardTrainingTest, AStepWhoseGradientIsTooLargeIsSkippedIfAskedTo) {
  const spec::Plan plan = SmallPlan({});
  const testing::CountingSource source(plan.training.sequence_length, plan.model.vocab_size);
  testing::RunRanks(1, [&](Communicator& world) {
    const auto device = MakeRankDevice({}, world);
    RankTrainer trainer(plan, *device, world, source);
    const double norm = trainer.Step(false).grad_norm;
    trainer.SetGuard({.on_spike = SpikeAction::kSkip, .spike_grad_norm = norm / 1000});
    const StepResult result = trainer.Step(false);
    EXPECT_TRUE(result.skipped);
    EXPECT_THAT(result.anomaly, HasSubstr("gradient norm"));
  });
}

}  // namespace
}  // namespace tessera::engine
