// Small mixtures of experts and the layouts over which prediction and execution are held together.
#pragma once

#include "tests/testing/conformance_plans.h"

namespace tessera::testing {

// Experts over data, tensor and both kinds of ranks, whole and cut, under every recomputation.
// Their routing is forced to be even, or every expert is filled up to its capacity, as the
// prediction has it. One model has SwiGLU, one GELU, a leading dense layer and losses of its
// routers, one a gated expert that every token visits.
std::vector<NamedPlan> ExpertPlans(spec::Precision precision = spec::Precision::kFp32);

}  // namespace tessera::testing
