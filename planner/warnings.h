#pragma once

#include <vector>

#include "cost_model/spec/step_warnings.h"
#include "planner/request.h"
#include "planner/search.h"

namespace tessera::planner {

// What of the layout's predicted step could be better, and how (see spec/step_warnings.h).
// REQUIRES: the layout has a price.
std::vector<spec::StepWarning> WarningsOf(const Request& request, const RankedLayout& layout);

}  // namespace tessera::planner
