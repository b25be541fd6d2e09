// The document of a what-if: what the table, the CSV and the page are made from.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "planner/what_if/what_if.h"

namespace tessera::planner {

// Numbers in SI units with the unit in the key; keys whose value is unknown or was not asked for
// are absent. Points that a cancelled sweep did not reach are left out.
nlohmann::ordered_json WhatIfToJson(const WhatIfRequest& request, const WhatIfResult& result);

}  // namespace tessera::planner
