// The memory of a layout in closed form, for searches.
#pragma once

#include "cost_model/step_parts.h"

namespace tessera::cost_model {

struct FastMemory {
  double peak_bytes = 0;    // of the fullest stage, PeakBytes
  double needed_bytes = 0;  // NeededBytes
};

// As MemoryOf without playing the schedule: passes in flight by formula, each as large as that of
// the stage's largest chunk; no padding of gradient buckets.
FastMemory StepMemoryFast(JobCosts& costs, const spec::ParallelSpec& parallel,
                          const StepParts& parts);

}  // namespace tessera::cost_model
