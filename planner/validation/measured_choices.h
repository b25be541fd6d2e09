// The layouts that a row may have run, where it leaves fields out.
#pragma once

#include <string>
#include <vector>

#include "cost_model/spec/parallel_spec.h"
#include "planner/validation/measurement.h"

namespace tessera::planner {

// What the row leaves out, as its authors may have chosen it.
struct LayoutChoice {
  spec::ParallelSpec parallel;
  std::vector<std::string> assumed;  // "recompute full"
};

// `known` with the row's chunks, recomputation, micro-batch size and ZeRO stage; every combination
// of those that the row leaves out. REQUIRES: the row has a global batch size.
std::vector<LayoutChoice> ChoicesOf(const Measurement& measurement, const spec::ModelSpec& model,
                                    const spec::ParallelSpec& known);

}  // namespace tessera::planner
