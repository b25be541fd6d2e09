// The scores as JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "planner/validation/validation.h"

namespace tessera::planner {

// `rows`, one per measurement (`id`, and either `skipped` or `predicted_step_time_s`,
// `predicted_peak_memory_bytes` in the statistic that the row measured, `fits`), and the scores:
// `total`, `sources`, `kinds`, `memory`, `ranking`, `fit`, `figures`.
// `broken_bounds` is left out when null: no bounds apply.
nlohmann::ordered_json ValidationToJson(const Validation& validation,
                                        const std::vector<std::string>* broken_bounds);

}  // namespace tessera::planner
