// What the program that a plan is for can run.
#pragma once

#include <optional>

#include "cost_model/spec/runtime_spec.h"

namespace tessera::planner {

// The first thing about a layout that the program cannot run, if any. Constraints are "target
// schedule", "target zero stage", "target context parallelism", "target context kind", "target
// expert parallelism", "target uneven stages", "target per-stage recomputation", "target optimizer
// offload" and "target overlap".
std::optional<spec::Violation> FindTargetViolation(const spec::RuntimeSpec& runtime,
                                                   const spec::ModelSpec& model,
                                                   const spec::ParallelSpec& parallel);

}  // namespace tessera::planner
