// Most bytes that the passes of a pipeline stage hold, without listing the stage's actions.
#pragma once

#include <vector>

#include "cost_model/spec/op_list.h"
#include "cost_model/spec/parallel_spec.h"

namespace tessera::spec {

// Micro-batches of a run that holds no less than one of `num_microbatches`, GPipe's apart: a stage
// repeats itself once its warm-up is over, which takes less than two groups of micro-batches (of as
// many as stages where the schedule has no groups). What it has not held in four groups, and in
// what is left after whole groups, it never holds.
int64_t MicrobatchesUpToPeak(const ParallelSpec& parallel, int64_t num_microbatches);

// PeakActivationBytes over the actions of stage `stage` in the schedule of `parallel`, which holds
// most at turns where the chunk that it runs, forward or backward, changes.
// `by_chunk` is indexed by chunk.
int64_t PeakActivationBytes(const ParallelSpec& parallel, int64_t num_microbatches, int stage,
                            const std::vector<StageActivationBytes>& by_chunk);

}  // namespace tessera::spec
