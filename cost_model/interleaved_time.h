// FastPipelineTime of the interleaved schedule.
#pragma once

#include "cost_model/pipeline_simulator.h"

namespace tessera::cost_model {

// REQUIRES: a shape that spec::MakeInterleaved takes, costs that CheckCosts takes.
PipelineTime InterleavedTime(const PipelineShape& shape, const PipelineCosts& costs);

}  // namespace tessera::cost_model
