// A rank's training state as checkpoints want it: in host memory and in fp32.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/optimizer/adamw_optimizer.h"
#include "engine/optimizer/train_state.h"

namespace tessera::engine {

// The device's own memory where that is the host's and fp32, so that changes are there at once;
// else a copy, in which the owned weights are the master weights. Lives no longer than what it is
// of.
class HostState {
 public:
  // Of kWeights, state().m and state().v are null.
  enum class Parts : uint8_t { kWeights, kAll };

  // Copies nothing yet.
  HostState(const LayerContext& context, const ParameterStore& store,
            const AdamWOptimizer& optimizer, Parts parts);
  HostState(HostState&&) = default;

  TrainState& state() { return state_; }
  const TrainState& state() const { return state_; }

  // Brings weights and moments from the device. REQUIRES: kAll.
  void Download();
  // Takes them there: weights rounded to the parameters' type, master weights of the owned ranges,
  // the moments unless state().m is null.
  void Upload() const;

 private:
  // Where an owned range's weights lie in the state's.
  int64_t OwnOffset(const spec::OwnedRange& range) const;
  void DownloadWeights();
  void UploadWeights() const;

  const LayerContext& context_;
  const ParameterStore& store_;
  const AdamWOptimizer& optimizer_;
  bool is_copy_;
  std::vector<float> weights_, m_, v_;  // empty without a copy
  TrainState state_;
};

}  // namespace tessera::engine
