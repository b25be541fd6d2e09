// Charts as the page's scripts read them.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "planner/report/chart.h"

namespace tessera::planner {

nlohmann::ordered_json ChartToJson(const Chart& figure);

}  // namespace tessera::planner
