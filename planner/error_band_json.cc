#include "planner/error_band_json.h"

#include <nlohmann/json.hpp>

#include "cost_model/base/error.h"
#include "cost_model/spec/field_reader_json.h"
#include "cost_model/spec/spec_json.h"
#include "cost_model/spec/strict_json.h"

namespace tessera::planner {

ErrorBand LoadErrorBand() {
  const std::string path = spec::PresetPath("measurements", "error_band");
  if (path.empty()) {
    throw base::ConfigError("configs", "", "no measurements/error_band.json", "that file");
  }
  const nlohmann::json document = spec::ReadJsonFile(path);
  ErrorBand band;
  spec::FieldReader::Read(document, path, [&](spec::FieldVisitor& fields) {
    fields.Number("step_time_share", band.share, spec::kNotNegative);
    fields.Text("source", band.source);
  });
  return band;
}

}  // namespace tessera::planner
