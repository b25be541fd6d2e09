// The parts of a what-if's document beside its points.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "planner/what_if/what_if.h"

namespace tessera::planner {

// A number for a document, which knows no infinity: absent then.
void SetFinite(nlohmann::ordered_json& document, const char* key, double value);

nlohmann::ordered_json RunToJson(const RunFigures& run);
nlohmann::ordered_json AnswerToJson(const Answer& answer);
nlohmann::ordered_json MarginsToJson(const std::vector<Margin>& margins);
nlohmann::ordered_json CrossoversToJson(const std::vector<Crossover>& crossovers);
nlohmann::ordered_json ScalingsToJson(const std::vector<ScalingCurve>& scalings);
nlohmann::ordered_json DetailsToJson(const std::vector<Detail>& details);
// What was asked of a run, and what a device is priced at.
nlohmann::ordered_json TermsToJson(const RunTerms& terms);

}  // namespace tessera::planner
