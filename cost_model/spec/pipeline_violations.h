// The rules of a pipeline among those of a layout: see FindViolations.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cost_model/spec/parallel_spec.h"

namespace tessera::spec {

Violation MakeViolation(const char* constraint, int64_t needed, int64_t available, const char* unit,
                        std::string message);

// Adds what breaks a rule of stages, schedules, transfers between stages and recomputed layers.
// REQUIRES: all sizes are in range.
void AddPipelineViolations(const ModelSpec& model, const TrainingSpec& training,
                           const ParallelSpec& parallel, std::vector<Violation>& violations);

}  // namespace tessera::spec
