#pragma once

#include <cstdint>
#include <string>

#include "cost_model/spec/model_spec.h"
#include "engine/optimizer/train_state.h"

namespace tessera::engine {

// What a checkpoint tells beside the state.
struct CheckpointInfo {
  spec::ModelSpec model;
  uint64_t seed = 0;
  std::string training;  // one line on what was trained with, for people
  // Filled by LoadCheckpoint; a save takes the first from the state.
  TrainProgress progress;
  bool has_optimizer_state = false;
};

}  // namespace tessera::engine
