// What the masks of the running pass are drawn from. One per rank; changes from pass to pass.
#pragma once

#include <cstdint>

#include "cost_model/spec/training_spec.h"

namespace tessera::engine {

struct DropoutState {
  spec::DropoutSpec probabilities;
  uint64_t seed = 0;
  int64_t step = 0;          // the optimizer step that the pass belongs to, from 1
  int64_t first_sample = 0;  // of the micro-batch, in the global batch
  bool is_on = true;         // passes that only measure the loss drop nothing

  double hidden() const { return is_on ? probabilities.hidden : 0; }
  double attention() const { return is_on ? probabilities.attention : 0; }
  double embedding() const { return is_on ? probabilities.embedding : 0; }
};

}  // namespace tessera::engine
