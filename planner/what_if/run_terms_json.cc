// Reading configs/what_if/defaults.json: declared in run_terms.h.
#include <nlohmann/json.hpp>

#include "cost_model/base/error.h"
#include "cost_model/spec/field_reader_json.h"
#include "cost_model/spec/spec_json.h"
#include "cost_model/spec/strict_json.h"
#include "planner/what_if/run_terms.h"

namespace tessera::planner {

RunTerms LoadRunTerms() {
  const std::string path = spec::PresetPath("what_if", "defaults");
  if (path.empty()) {
    throw base::ConfigError("configs", "", "no what_if/defaults.json", "that file");
  }
  const nlohmann::json document = spec::ReadJsonFile(path);
  std::map<std::string, spec::NumberSource> sources;
  spec::FieldReader reader(document, path, "", &sources);
  RunTerms terms;
  const auto read = [&](const char* key, SourcedNumber& number, spec::NumberRange range) {
    reader.Number(key, number.value, range);
    number.source = sources[std::string("/") + key];
  };
  constexpr spec::NumberRange kFactor = {.minimum = 1};
  read("mtbf_device_s", terms.mtbf_device_s, spec::kPositive);
  read("storage_bandwidth_bytes_per_s_per_device", terms.storage_bandwidth_bytes_per_s_per_device,
       spec::kPositive);
  read("restart_s", terms.restart_s, spec::kNotNegative);
  read("node_power_factor", terms.node_power_factor, kFactor);
  read("power_usage_effectiveness", terms.power_usage_effectiveness, kFactor);
  reader.Finish();
  return terms;
}

}  // namespace tessera::planner
