// The specs as JSON documents, for code that embeds them in documents of its own.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "cost_model/spec/plan.h"

namespace tessera::spec {

nlohmann::ordered_json ModelToJson(const ModelSpec& model);
nlohmann::ordered_json ClusterToJson(const ClusterSpec& cluster);
nlohmann::ordered_json ParallelToJson(const ParallelSpec& parallel);
nlohmann::ordered_json StepReportToJson(const StepReport& report);
nlohmann::ordered_json PlanToJson(const Plan& plan);

// `file` names the document in errors. Throw base::ConfigError as spec_json.h says.
ModelSpec ModelFromJson(const nlohmann::json& document, const std::string& file);
ClusterSpec ClusterFromJson(const nlohmann::json& document, const std::string& file);
Plan PlanFromJson(const nlohmann::json& document, const std::string& file);

// Throws base::ConfigError for sizes of the model that contradict each other.
void CheckModel(const ModelSpec& model, const std::string& file);

}  // namespace tessera::spec
