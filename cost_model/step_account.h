// From the parts of a step and the time its pipeline takes to exposed seconds by kind.
#pragma once

#include "cost_model/pipeline_run.h"
#include "cost_model/spec/step_report.h"

namespace tessera::cost_model {

// The time from the first action to the updated parameters, in exposed seconds; see PriceStep.
spec::TimeBreakdown AccountStep(const JobCosts& costs, const spec::ParallelSpec& parallel,
                                const StepParts& parts, const PipelineRun& run);

// Seconds of gradient reduction on pipeline stage `stage` that its backward passes do not hide.
double ExposedReductionSeconds(const JobCosts& costs, const spec::ParallelSpec& parallel,
                               const StepParts& parts, int stage);

// When every stage has reduced its gradients, in seconds from the pipeline's start.
double ReductionEnd(const JobCosts& costs, const spec::ParallelSpec& parallel,
                    const StepParts& parts, const PipelineRun& run);

// What the update of a stage takes, its gathering of parameters as far as the next step's first
// forward pass does not hide it.
UpdateCost ExposedUpdate(const JobCosts& costs, const spec::ParallelSpec& parallel,
                         const StepParts& parts, int stage);

}  // namespace tessera::cost_model
