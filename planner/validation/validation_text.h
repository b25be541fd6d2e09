// The scores as people read them.
#pragma once

#include <string>

#include "planner/validation/validation.h"

namespace tessera::planner {

// A line a source, the worst rows, and why rows were skipped.
std::string ValidationText(const Validation& validation, int num_worst);

}  // namespace tessera::planner
