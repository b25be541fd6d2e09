// Tokens and labels of a step's micro-batches in host memory that the device reads by itself, each
// micro-batch at a place of its own: copies may run as late as the step ends, and read anew when
// the step is a graph.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/layers/stage_model.h"
#include "kernels/backend.h"

namespace tessera::engine {

class InputSlots {
 public:
  // `tokens`: of a micro-batch. `backend` must outlive the slots.
  InputSlots(kernels::Backend& backend, int num_microbatches, int64_t tokens);
  ~InputSlots();
  InputSlots(const InputSlots&) = delete;
  InputSlots& operator=(const InputSlots&) = delete;

  // The slot of a micro-batch of the step that begins at a sample, with what `load` gives for it
  // unless the slot has that already. REQUIRES: copies of earlier steps have run.
  Microbatch Get(int64_t consumed_samples, int microbatch, const std::function<Microbatch()>& load);

 private:
  kernels::Backend& backend_;
  const int64_t tokens_;
  const size_t num_bytes_;
  int32_t* const memory_;
  std::vector<int64_t> loaded_for_;  // by micro-batch: where its step begins
};

}  // namespace tessera::engine
