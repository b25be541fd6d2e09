#include "engine/checkpoint/state_parts.h"

#include <algorithm>

#include "cost_model/base/check.h"

namespace tessera::engine {
namespace {

TensorPart SliceOnRank(const TrainState& state, int parameter) {
  const spec::ParameterSpec& spec = state.parameters[parameter];
  const spec::LocalSlice& slice = state.slices[parameter];
  if (slice.dim < 0) return WholeTensor(spec.global_shape);
  return WholeSlice(spec.global_shape, slice.dim, slice.begin, slice.size, slice.shape[slice.dim]);
}

int NumParameters(const TrainState& state) {
  TESSERA_CHECK(state.slices.size() == state.parameters.size() &&
                    state.layout.parameters.size() == state.parameters.size(),
                state.parameters.size(), " parameters, ", state.slices.size(), " slices, ",
                state.layout.parameters.size(), " places");
  return static_cast<int>(state.parameters.size());
}

// One part for each parameter and owned range that meet. `base` is what the range's state_offset
// (of the moments) or offset (of the weights) counts from.
void AddOwnedParts(const TrainState& state, const std::vector<spec::OwnedRange>& owned,
                   StateKind kind, float* base, std::vector<StatePart>& parts) {
  const int num_parameters = NumParameters(state);
  for (const spec::OwnedRange& range : owned) {
    for (int i = 0; i < num_parameters; ++i) {
      const spec::FlatParameter& place = state.layout.parameters[i];
      const int64_t begin = std::max(range.offset, place.offset);
      const int64_t end =
          std::min(range.offset + range.num_elements, place.offset + place.num_elements);
      if (begin >= end) continue;
      const bool is_flat = kind == StateKind::kWeight && !state.has_owned_weights_alone;
      const int64_t at = is_flat ? begin : begin - range.offset + range.state_offset;
      StatePart part = {
          .parameter = i, .kind = kind, .part = SliceOnRank(state, i), .data = base + at};
      part.part.first = begin - place.offset;
      part.part.count = end - begin;
      parts.push_back(part);
    }
  }
}

void AddMomentParts(const TrainState& state, const std::vector<spec::OwnedRange>& owned,
                    std::vector<StatePart>& parts) {
  if (state.m == nullptr) return;
  AddOwnedParts(state, owned, StateKind::kM, state.m, parts);
  AddOwnedParts(state, owned, StateKind::kV, state.v, parts);
}

}  // namespace

std::vector<StatePart> WeightParts(const TrainState& state) {
  std::vector<StatePart> parts;
  if (state.has_owned_weights_alone) {
    AddOwnedParts(state, state.owned, StateKind::kWeight, state.weights, parts);
    return parts;
  }
  const int num_parameters = NumParameters(state);
  for (int i = 0; i < num_parameters; ++i) {
    parts.push_back({.parameter = i,
                     .kind = StateKind::kWeight,
                     .part = SliceOnRank(state, i),
                     .data = state.weights + state.layout.parameters[i].offset});
    TESSERA_CHECK(parts.back().part.count == state.layout.parameters[i].num_elements,
                  state.parameters[i].name);
  }
  return parts;
}

std::vector<StatePart> MomentParts(const TrainState& state) {
  std::vector<StatePart> parts;
  AddMomentParts(state, state.owned, parts);
  return parts;
}

std::vector<StatePart> PartsToSave(const TrainState& state) {
  std::vector<spec::OwnedRange> written = state.owned;
  std::erase_if(written, [](const spec::OwnedRange& range) { return !range.is_first_holder; });
  std::vector<StatePart> parts;
  AddMomentParts(state, written, parts);
  AddOwnedParts(state, written, StateKind::kWeight, state.weights, parts);
  std::erase_if(parts, [&](const StatePart& part) {
    return state.parameters[part.parameter].tied_copy ||
           !state.slices[part.parameter].first_replica ||
           WithoutPadding(state.parameters[part.parameter].global_shape, part.part).count == 0;
  });
  return parts;
}

}  // namespace tessera::engine
