#pragma once

#include <nlohmann/json_fwd.hpp>
#include <vector>

#include "cost_model/spec/step_warnings.h"

namespace tessera::spec {

// A list of `kind`, `what`, `remedy`, `share`.
nlohmann::ordered_json StepWarningsToJson(const std::vector<StepWarning>& warnings);

}  // namespace tessera::spec
