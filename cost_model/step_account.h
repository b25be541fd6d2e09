// From the parts of a step and the time its pipeline takes to exposed seconds by kind.
#pragma once

#include "cost_model/pipeline_run.h"
#include "cost_model/spec/step_report.h"

namespace tessera::cost_model {

// The time from the first action to the updated parameters, in exposed seconds; see PriceStep.
spec::TimeBreakdown AccountStep(const JobCosts& costs, const spec::ParallelSpec& parallel,
                                const StepParts& parts, const PipelineRun& run);

}  // namespace tessera::cost_model
