// A what-if as a spreadsheet reads it.
#pragma once

#include <string>

#include "planner/what_if/what_if.h"

namespace tessera::planner {

// A header with the unit in each column's name, then a row for each point that was searched (RFC
// 4180). Cells whose value is unknown are empty.
std::string WhatIfCsv(const WhatIfResult& result);

}  // namespace tessera::planner
