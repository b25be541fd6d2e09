// What a director reads of a what-if.
#pragma once

#include <string>
#include <vector>

#include "planner/what_if/what_if.h"

namespace tessera::planner {

// Plain sentences, the answer first; then what else was found, what it rests on, and what is
// missing.
std::vector<std::string> SummaryOf(const WhatIfRequest& request, const WhatIfResult& result);

}  // namespace tessera::planner
