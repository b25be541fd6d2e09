// A model so small that a step takes milliseconds, and what tests want to know of its training.
#pragma once

#include <vector>

#include "engine/train/rank_trainer.h"
#include "tests/testing/counting_source.h"
#include "tests/testing/run_ranks.h"

namespace tessera::engine::test {

using tessera::testing::CountingSource;
using tessera::testing::kTestTimeoutSeconds;
using tessera::testing::RunRanks;

// Four layers, batches of 4 samples of 8 bytes, 4 steps.
inline spec::Plan SmallPlan(const spec::ParallelSpec& parallel) {
  spec::Plan plan{.model = {.name = "small",
                            .num_layers = 4,
                            .hidden_size = 16,
                            .num_attention_heads = 2,
                            .num_key_value_heads = 2,
                            .head_dim = 8,
                            .ffn_hidden_size = 32,
                            .vocab_size = 256,
                            .max_sequence_length = 8,
                            .tied_embeddings = true},
                  .parallel = parallel,
                  .threads_per_rank = 1};
  plan.training = {.global_batch_size = 4,
                   .sequence_length = 8,
                   .steps = 4,
                   .precision = spec::Precision::kFp32};
  plan.num_devices = spec::WorldSize(parallel);
  return plan;
}

// The weights of one rank alone, where they lie in its flat buffer.
struct FlatWeights {
  std::vector<spec::ParameterSpec> parameters;
  spec::FlatLayout layout;
  std::vector<float> values;
};
inline FlatWeights WeightsAfterSteps(const spec::Plan& plan, int num_steps) {
  const CountingSource source(plan.training.sequence_length, plan.model.vocab_size);
  FlatWeights weights;
  RunRanks(1, [&](Communicator& world) {
    const auto device = MakeRankDevice({.threads_per_rank = plan.threads_per_rank}, world);
    RankTrainer trainer(plan, *device, world, source);
    for (int step = 0; step < num_steps; ++step) trainer.Step(false);
    const HostState host = trainer.State();
    const TrainState& state = host.state();
    weights = {.parameters = state.parameters,
               .layout = state.layout,
               .values = {state.weights, state.weights + state.layout.num_elements}};
  });
  return weights;
}

}  // namespace tessera::engine::test
