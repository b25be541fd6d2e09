#include "tests/testing/global_state.h"

#include <bit>
#include <cmath>
#include <functional>
#include <mutex>
#include <numeric>

#include "engine/checkpoint/state_parts.h"
#include "engine/train/rank_trainer.h"
#include "tests/testing/counting_source.h"

namespace tessera::testing {
namespace {

int64_t Product(std::vector<int64_t>::const_iterator begin,
                std::vector<int64_t>::const_iterator end) {
  return std::accumulate(begin, end, int64_t{1}, std::multiplies<>());
}

// Global index of each element of a part, -1 for padding; index by index, as the definition of a
// slice says.
std::vector<int64_t> GlobalIndices(const std::vector<int64_t>& shape,
                                   const engine::TensorPart& part) {
  const int64_t inner = Product(shape.begin() + part.dim + 1, shape.end());
  std::vector<int64_t> indices;
  for (int64_t stored = part.first; stored < part.first + part.count; ++stored) {
    const int64_t along = stored / inner % part.stored_size;
    const int64_t outer = stored / inner / part.stored_size;
    const bool is_padding = along >= part.size;
    const int64_t global = (outer * shape[part.dim] + part.begin + along) * inner + stored % inner;
    indices.push_back(is_padding ? -1 : global);
  }
  return indices;
}

void Gather(const std::vector<int64_t>& shape, const engine::StatePart& from, float factor,
            GlobalTensor& to) {
  const auto num_elements = static_cast<size_t>(Product(shape.begin(), shape.end()));
  to.values.resize(num_elements);
  to.is_held.resize(num_elements);
  const std::vector<int64_t> indices = GlobalIndices(shape, from.part);
  for (size_t i = 0; i < indices.size(); ++i) {
    if (indices[i] < 0) continue;
    const auto index = static_cast<size_t>(indices[i]);
    const float value = from.data[i] * factor;
    const bool differs =
        std::bit_cast<uint32_t>(to.values[index]) != std::bit_cast<uint32_t>(value);
    if (!to.is_held[index])
      to.values[index] = value;
    else if (differs)
      ++to.num_holders_that_differ;
    to.is_held[index] = true;
  }
}

void GatherAll(const engine::TrainState& state, const std::vector<engine::StatePart>& parts,
               engine::StateKind kind, float factor, GlobalTensors& to) {
  for (const engine::StatePart& part : parts) {
    if (part.kind != kind) continue;
    const spec::ParameterSpec& parameter = state.parameters[static_cast<size_t>(part.parameter)];
    Gather(parameter.global_shape, part, factor, to[parameter.name]);
  }
}

// After one step m is (1 - beta1) times the clipped gradient.
float GradientOfFirstMoment(const spec::OptimizerSpec& options, double grad_norm) {
  const bool is_clipped = options.clip_grad > 0 && grad_norm > options.clip_grad;
  const double clip_factor = is_clipped ? options.clip_grad / grad_norm : 1;
  return static_cast<float>(1 / ((1 - options.adam_beta1) * clip_factor));
}

}  // namespace

TrainedModel TrainOver(CommBackend backend, const spec::Plan& plan) {
  const CountingSource source(plan.training.sequence_length, plan.model.vocab_size);
  TrainedModel trained;
  std::mutex mutex;
  RunRanks(backend, plan.num_devices, {}, [&](engine::Communicator& world) {
    const auto device = engine::MakeRankDevice({}, world);
    engine::RankTrainer trainer(plan, *device, world, source);
    for (int64_t step = 1; step <= plan.training.steps; ++step) {
      const engine::StepResult result = trainer.Step(false);
      const std::lock_guard lock(mutex);
      if (world.rank() == 0) {
        trained.losses.push_back(result.loss);
        trained.grad_norms.push_back(result.grad_norm);
      }
      if (step > 1) continue;
      const engine::HostState host = trainer.State();
      GatherAll(host.state(), MomentParts(host.state()), engine::StateKind::kM,
                GradientOfFirstMoment(plan.training.optimizer, result.grad_norm),
                trained.first_gradients);
    }
    const std::lock_guard lock(mutex);
    const engine::HostState host = trainer.State();
    GatherAll(host.state(), WeightParts(host.state()), engine::StateKind::kWeight, 1,
              trained.weights);
  });
  return trained;
}

}  // namespace tessera::testing
