// What one rank holds of the training state: weights in one flat buffer or in shards, the
// optimizer's moments for the ranges it owns; fp32 in host memory. What checkpoints save and load.
#pragma once

#include <cstdint>
#include <vector>

#include "cost_model/spec/owned_ranges.h"
#include "engine/optimizer/loss_scaler.h"

namespace tessera::engine {

// What the next step is judged by (StepGuard).
struct RecentSteps {
  std::vector<double> losses;        // of the last steps that were applied, the newest last
  int64_t num_skipped_in_a_row = 0;  // of the steps since
  bool operator==(const RecentSteps&) const = default;
};

// Where a run stands.
struct TrainProgress {
  int64_t step = 0;               // optimizer steps done
  int64_t num_skipped_steps = 0;  // of these, that updated nothing
  int64_t consumed_samples = 0;   // position in the data
  LossScale loss_scale;           // of fp16
  RecentSteps recent;
  bool operator==(const TrainProgress&) const = default;
};

struct TrainState {
  std::vector<spec::ParameterSpec> parameters;  // of all chunks of this rank
  std::vector<spec::LocalSlice> slices;         // one a parameter
  spec::FlatLayout layout;                      // offsets of the parameters
  // What this rank updates. Of ranges that several ranks own the first holder's go into a
  // checkpoint; replicas of a part (see LocalSlice::first_replica) and tied copies never do.
  std::vector<spec::OwnedRange> owned;
  float* weights = nullptr;  // [layout.num_elements], host memory; or the owned ranges' alone,
  bool has_owned_weights_alone = false;  // where they lie as in m and v
  float* m = nullptr;  // [sum of owned], host memory; null when only weights matter
  float* v = nullptr;
  TrainProgress progress;
};

// Elements of state.weights.
inline int64_t NumWeights(const TrainState& state) {
  return state.has_owned_weights_alone ? spec::NumOwnedElements(state.owned)
                                       : state.layout.num_elements;
}

}  // namespace tessera::engine
