// The rules of what changes from step to step: the batch's ramp, the schedules of the optimizer;
// and of what counts in the loss.
#pragma once

#include <vector>

#include "cost_model/spec/parallel_spec.h"

namespace tessera::spec {

// REQUIRES: sizes are in range.
void AddTrainingViolations(const ModelSpec& model, const TrainingSpec& training,
                           const ParallelSpec& parallel, std::vector<Violation>& violations);

}  // namespace tessera::spec
