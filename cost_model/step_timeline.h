// A priced step laid out in time.
#pragma once

#include <vector>

#include "cost_model/spec/timeline.h"
#include "cost_model/step_parts.h"

namespace tessera::cost_model {

// One step as PriceStep sees it, a timeline for each pipeline stage: the pipeline's actions; the
// reduction of gradients, of which PriceStep's dp_comm_s is what outlasts the pipeline; waiting for
// the slowest stage and device; the update. The last of them ends at PriceStep's step_time_s, but
// for a hidden gathering of parameters, which belongs to the next step. Memory is what a rank of
// the stage holds; its most is the stage's Total().
// REQUIRES: as PriceStep.
std::vector<spec::RankTimeline> PredictTimelines(JobCosts& costs,
                                                 const spec::ParallelSpec& parallel);

}  // namespace tessera::cost_model
