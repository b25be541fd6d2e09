// The training state of one rank as parts of global tensors.
#pragma once

#include <vector>

#include "engine/checkpoint/manifest.h"
#include "engine/optimizer/train_state.h"

namespace tessera::engine {

// Stored elements of a parameter, or of its moments, in the memory of this rank.
struct StatePart {
  int parameter = 0;  // index into TrainState::parameters
  StateKind kind = StateKind::kWeight;
  TensorPart part;
  float* data = nullptr;  // its first element
};

// The weights that this rank keeps: tied copies, replicas and padding included.
std::vector<StatePart> WeightParts(const TrainState& state);
// The moments that this rank owns; none where state.m is null.
std::vector<StatePart> MomentParts(const TrainState& state);
// What this rank puts into a checkpoint: the owned ranges of weights and moments, tied copies and
// later replicas apart.
std::vector<StatePart> PartsToSave(const TrainState& state);

}  // namespace tessera::engine
