// Most bytes that the passes of a pipeline stage hold, without listing the stage's actions.
#pragma once

#include <vector>

#include "cost_model/spec/op_list.h"
#include "cost_model/spec/parallel_spec.h"

namespace tessera::spec {

// PeakActivationBytes over the actions of stage `stage` in the schedule of `parallel`, which holds
// most at turns where the chunk that it runs, forward or backward, changes.
// `by_chunk` is indexed by chunk.
int64_t PeakActivationBytes(const ParallelSpec& parallel, int64_t num_microbatches, int stage,
                            const std::vector<StageActivationBytes>& by_chunk);

}  // namespace tessera::spec
