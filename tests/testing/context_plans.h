// Small trainings with context-parallel ranks.
#pragma once

#include <vector>

#include "tests/testing/conformance_plans.h"

namespace tessera::testing {

// Every kind of context parallelism with every kind of recomputation on several meshes; models,
// micro-batches, sequence parallelism and kinds of attention take turns.
std::vector<NamedPlan> ContextPlans(spec::Precision precision = spec::Precision::kFp32);

}  // namespace tessera::testing
