// The scores as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "planner/validation/validation.h"

namespace tessera::planner {

// `rows`, one per measurement, and the scores of each source and of all.
nlohmann::ordered_json ValidationToJson(const Validation& validation);

}  // namespace tessera::planner
