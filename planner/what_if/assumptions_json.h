// What a what-if rests on: numbers with their sources, and formulas.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "planner/what_if/what_if.h"

namespace tessera::planner {

// Every sourced number of the clusters asked about, by its JSON pointer, then those of the run:
// objects of `cluster` (empty for the run's), `name`, `value`, `unit`, `tag`, `source`.
nlohmann::ordered_json AssumptionsToJson(const WhatIfRequest& request);

// Objects of `name`, `formula`, `source`.
nlohmann::ordered_json FormulasToJson();

}  // namespace tessera::planner
