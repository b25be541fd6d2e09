// What one rank holds of the training state: weights in one flat buffer, the optimizer's moments
// for the ranges it owns; fp32 in host memory. What checkpoints save and load.
#pragma once

#include <cstdint>
#include <vector>

#include "cost_model/spec/owned_ranges.h"

namespace tessera::engine {

struct TrainState {
  std::vector<spec::ParameterSpec> parameters;  // of all chunks of this rank
  std::vector<spec::LocalSlice> slices;         // one a parameter
  spec::FlatLayout layout;                      // offsets of the parameters
  // What this rank updates. Of ranges that several ranks own the first holder's go into a
  // checkpoint; replicas of a part (see LocalSlice::first_replica) and tied copies never do.
  std::vector<spec::OwnedRange> owned;
  float* weights = nullptr;  // [layout.num_elements], host memory
  float* m = nullptr;        // [sum of owned], host memory; null when only weights matter
  float* v = nullptr;
  int64_t step = 0;              // optimizer steps done
  int64_t consumed_samples = 0;  // position in the data
};

}  // namespace tessera::engine
