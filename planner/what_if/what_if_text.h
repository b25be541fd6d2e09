// A what-if as a terminal shows it.
#pragma once

#include <string>

#include "planner/what_if/what_if.h"

namespace tessera::planner {

// The points grouped by model, cluster and variant, a bar for the throughput of each; then what was
// concluded, in sentences.
std::string WhatIfText(const WhatIfRequest& request, const WhatIfResult& result);

// `share` of a bar of `width` blocks, to an eighth of one.
std::string BarText(double share, int width);

}  // namespace tessera::planner
