#include "engine/train/global_state.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <numeric>
#include <optional>

#include "engine/checkpoint/state_parts.h"

namespace tessera::engine {
namespace {

int64_t Product(std::vector<int64_t>::const_iterator begin,
                std::vector<int64_t>::const_iterator end) {
  return std::accumulate(begin, end, int64_t{1}, std::multiplies<>());
}

// Calls visit(i, global index) for each stored element of a part that is no padding; index by
// index, as the definition of a slice says.
template <typename Visit>
void ForEachElement(const std::vector<int64_t>& shape, const TensorPart& part, const Visit& visit) {
  const int64_t inner = Product(shape.begin() + part.dim + 1, shape.end());
  for (int64_t i = 0; i < part.count; ++i) {
    const int64_t stored = part.first + i;
    const int64_t along = stored / inner % part.stored_size;
    const int64_t outer = stored / inner / part.stored_size;
    if (along >= part.size) continue;
    visit(static_cast<size_t>(i),
          (outer * shape[static_cast<size_t>(part.dim)] + part.begin + along) * inner +
              stored % inner);
  }
}

bool HoldsElement(const std::vector<int64_t>& shape, const TensorPart& part, int64_t element) {
  const int64_t inner = Product(shape.begin() + part.dim + 1, shape.end());
  const int64_t dim_size = shape[static_cast<size_t>(part.dim)];
  const int64_t along = element / inner % dim_size - part.begin;
  if (along < 0 || along >= part.size) return false;
  const int64_t outer = element / inner / dim_size;
  const int64_t stored = (outer * part.stored_size + along) * inner + element % inner;
  return stored >= part.first && stored < part.first + part.count;
}

void AddPart(const StatePart& from, float factor, int rank, GlobalTensor& to) {
  const auto num_elements = static_cast<size_t>(Product(to.shape.begin(), to.shape.end()));
  to.values.resize(num_elements);
  to.is_held.resize(num_elements);
  to.holders.push_back({rank, from.part});
  ForEachElement(to.shape, from.part, [&](size_t i, int64_t global) {
    const auto index = static_cast<size_t>(global);
    const float value = from.data[i] * factor;
    const bool differs =
        std::bit_cast<uint32_t>(to.values[index]) != std::bit_cast<uint32_t>(value);
    if (!to.is_held[index]) {
      to.values[index] = value;
    } else if (differs) {
      ++to.num_holders_that_differ;
    }
    to.is_held[index] = true;
  });
}

void AddParts(const TrainState& state, const std::vector<StatePart>& parts, StateKind kind,
              float factor, int rank, GlobalTensors& to) {
  for (const StatePart& part : parts) {
    if (part.kind != kind) continue;
    const spec::ParameterSpec& parameter = state.parameters[static_cast<size_t>(part.parameter)];
    GlobalTensor& tensor = to[parameter.name];
    tensor.shape = parameter.global_shape;
    AddPart(part, factor, rank, tensor);
  }
}

}  // namespace

std::vector<int> HoldersOfElement(const GlobalTensor& tensor, int64_t element) {
  std::vector<int> ranks;
  for (const GlobalTensor::Holder& holder : tensor.holders) {
    if (HoldsElement(tensor.shape, holder.part, element)) ranks.push_back(holder.rank);
  }
  std::sort(ranks.begin(), ranks.end());
  return ranks;
}

void ModelRecorder::Record(RankTrainer& trainer, kernels::Backend& backend, int rank,
                           const StepResult& result, bool is_last) {
  std::optional<HostState> host;
  if (is_last) host.emplace(trainer.State());  // may wait for ranks that are not here yet
  const std::lock_guard lock(mutex_);
  if (rank == 0) {
    trained_.losses.push_back(result.loss);
    trained_.grad_norms.push_back(result.grad_norm);
  }
  if (first_good_step_ == 0 && !result.skipped) first_good_step_ = result.step;
  if (result.step == first_good_step_) AddGradients(trainer, backend, rank, result);
  if (host) AddState(host->state(), trainer.store().weights().dtype, rank);
}

// They lie as the moments do.
void ModelRecorder::AddGradients(RankTrainer& trainer, kernels::Backend& backend, int rank,
                                 const StepResult& result) {
  const ParameterStore& store = trainer.store();
  std::vector<float> gradients(static_cast<size_t>(store.num_owned()));
  for (const spec::OwnedRange& range : store.owned()) {
    backend.CopyToHost(gradients.data() + range.state_offset, store.OwnGradients(range).data,
                       static_cast<size_t>(range.num_elements) * sizeof(float));
  }
  TrainState state{.parameters = store.parameters(),
                   .slices = store.slices(),
                   .layout = store.layout(),
                   .owned = store.owned()};
  state.m = state.v = gradients.data();
  const double scale = result.loss_scale > 0 ? result.loss_scale : 1;
  AddParts(state, MomentParts(state), StateKind::kM, static_cast<float>(1 / scale), rank,
           trained_.first_gradients);
}

void ModelRecorder::AddState(const TrainState& state, base::DType weight_type, int rank) {
  // Of mixed precision a rank has master weights of what it updates alone.
  const bool has_master = weight_type != base::DType::kFloat32;
  AddParts(state, has_master ? PartsToSave(state) : WeightParts(state), StateKind::kWeight, 1, rank,
           trained_.weights);
  AddParts(state, MomentParts(state), StateKind::kM, 1, rank, trained_.first_moments);
  AddParts(state, MomentParts(state), StateKind::kV, 1, rank, trained_.second_moments);
}

}  // namespace tessera::engine
