// What can be planned and priced, but the engine does not execute yet.
#pragma once

#include <vector>

#include "cost_model/spec/model_spec.h"
#include "cost_model/spec/parallel_spec.h"
#include "cost_model/spec/training_spec.h"

namespace tessera::spec {

// Read by the engine, which refuses to train, and by the planner, which recommends nothing of it
// for this engine. Rules that hold for every program are FindViolations'. The constraint of each is
// "not executed"; empty: the engine can run it.
std::vector<Violation> FindEngineLimits(const ModelSpec& model, const TrainingSpec& training,
                                        const ParallelSpec& parallel);

}  // namespace tessera::spec
