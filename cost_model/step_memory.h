// The memory of a layout from what layouts share: as MemoryOf has it, to the byte, but without
// listing parameters or playing the schedule.
#pragma once

#include <limits>
#include <vector>

#include "cost_model/spec/step_report.h"
#include "cost_model/step_parts.h"

namespace tessera::cost_model {

// By pipeline stage, told apart by terms.
std::vector<spec::StageMemory> StepMemory(JobCosts& costs, const spec::ParallelSpec& parallel,
                                          const StepParts& parts);

struct StepBytes {
  double peak_bytes = 0;    // of the fullest stage, PeakBytes
  double needed_bytes = 0;  // NeededBytes
};
// Of `parts` it takes the number of micro-batches and the forms of layers alone, which need not be
// those of a partition. With Padding::kNone fewer layers never need more. On devices of their own
// it looks no further once a stage needs more than `enough_bytes`: the layout needs at least that.
StepBytes StepBytesOf(JobCosts& costs, const spec::ParallelSpec& parallel, const StepParts& parts,
                      Padding padding = Padding::kOfBuckets,
                      double enough_bytes = std::numeric_limits<double>::infinity());

// NeededBytes of one stage on a device of its own. What it takes of `parts` as above.
double StageNeededBytes(JobCosts& costs, const spec::ParallelSpec& parallel, const StepParts& parts,
                        int stage);

}  // namespace tessera::cost_model
