// Tokens, labels and documents of a step's micro-batches in host memory that the device reads by
// itself, each micro-batch at a place of its own: copies may run as late as the step ends, and read
// anew when the step is a graph.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "engine/layers/stage_model.h"
#include "kernels/backend.h"

namespace tessera::engine {

// Of each of so many micro-batches.
struct InputSizes {
  int num_microbatches = 0;
  int64_t tokens = 0;
  int64_t document_starts = 0;  // 0: they are of no interest
};

class InputSlots {
 public:
  // `backend` must outlive the slots.
  InputSlots(kernels::Backend& backend, const InputSizes& sizes);
  ~InputSlots();
  InputSlots(const InputSlots&) = delete;
  InputSlots& operator=(const InputSlots&) = delete;

  // The slot of a micro-batch of the step that begins at a sample, with what `load` gives for it
  // unless the slot has that already. REQUIRES: copies of earlier steps have run.
  Microbatch Get(int64_t consumed_samples, int microbatch, const std::function<Microbatch()>& load);

 private:
  kernels::Backend& backend_;
  const InputSizes sizes_;
  const size_t num_bytes_;
  int32_t* const memory_;
  std::vector<int64_t> loaded_for_;  // by micro-batch: where its step begins
};

}  // namespace tessera::engine
