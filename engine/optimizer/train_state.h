// What one rank holds of the training state: weights in one flat buffer, the optimizer's moments
// for the ranges it owns; fp32 in host memory. What checkpoints save and load.
#pragma once

#include <cstdint>
#include <vector>

#include "cost_model/spec/flat_layout.h"
#include "cost_model/spec/rank_layout.h"

namespace tessera::engine {

// A range of the flat buffer whose optimizer state lies at `state_offset` of m and v.
struct OwnedRange {
  int64_t offset = 0;  // elements into the flat buffer
  int64_t num_elements = 0;
  int64_t state_offset = 0;  // elements into m and v
};

struct TrainState {
  spec::RankCoord coord;
  std::vector<spec::ParameterSpec> parameters;  // of all chunks of this rank
  std::vector<spec::LocalSlice> slices;         // one a parameter
  spec::FlatLayout layout;                      // offsets of the parameters
  // All of the flat buffer without sharding, this data rank's part of each bucket with it.
  std::vector<OwnedRange> owned;
  float* weights = nullptr;  // [layout.num_elements], host memory
  float* m = nullptr;        // [sum of owned], host memory; null when only weights matter
  float* v = nullptr;
  // Whether this rank's owned ranges go into a checkpoint: without sharding the first data rank
  // alone writes; replicas of a part (see LocalSlice::first_replica) and tied copies never do.
  bool writes = true;
  int64_t step = 0;              // optimizer steps done
  int64_t consumed_samples = 0;  // position in the data
};

}  // namespace tessera::engine
