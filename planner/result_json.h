// Results of the planner as JSON text.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "planner/best_practice.h"
#include "planner/repairs.h"
#include "planner/sensitivity.h"

namespace tessera::planner {

// One layout and its price: `feasible`, `violations`, `layout`, and the keys of a step report
// (absent for a layout that breaks a rule and has no price).
nlohmann::ordered_json LayoutToJson(const spec::ParallelSpec& parallel,
                                    const spec::StepReport& report,
                                    const std::vector<spec::Violation>& violations);

// What was asked: model, cluster, devices, batch, precision, convention.
nlohmann::ordered_json RequestToJson(const Request& request);

// `num_layouts`, the priced, pruned and rejected of them, `rejections`, and the first `num_rows` as
// `rows`.
nlohmann::ordered_json SearchToJson(const SearchResult& search, int num_rows);
// How many rows tie with the first, by which error band.
nlohmann::ordered_json TiesToJson(const Request& request, const SearchResult& search);
nlohmann::ordered_json SensitivitiesToJson(const std::vector<Sensitivity>& sensitivities);
nlohmann::ordered_json BestPracticeToJson(const BestPractice& practice);
nlohmann::ordered_json RepairsToJson(const std::vector<Repair>& repairs);

}  // namespace tessera::planner
