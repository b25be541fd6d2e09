#include "planner/validation/validation_json.h"

#include <nlohmann/json.hpp>

#include "cost_model/spec/plan_json.h"

namespace tessera::planner {
namespace {

using nlohmann::ordered_json;

ordered_json RowToJson(const RowResult& row) {
  const Measurement& measurement = row.measurement;
  ordered_json json = {{"id", measurement.id}, {"source", measurement.source}};
  if (measurement.step_time_s) json["measured_step_time_s"] = *measurement.step_time_s;
  if (measurement.peak_memory_bytes) {
    json["measured_peak_memory_bytes"] = *measurement.peak_memory_bytes;
    json["memory_class"] = ToString(measurement.memory_class);
  }
  if (!row.is_priced()) {
    json["skipped"] = row.skipped;
    return json;
  }
  json["predicted_step_time_s"] = row.predicted_step_time_s;
  json["predicted_peak_memory_bytes"] = row.predicted_peak_memory_bytes;
  json["fits"] = row.fits;
  if (const auto error = StepTimeError(row)) json["step_time_error"] = *error;
  if (const auto error = MemoryError(row)) json["memory_error"] = *error;
  json["assumed"] = row.assumed;
  json["layout"] = spec::ParallelToJson(row.parallel);
  json["time"] = spec::StepReportToJson(row.report)["time"];
  return json;
}

ordered_json ErrorsToJson(const ErrorScore& score) {
  ordered_json json = {{"num_rows", score.num_rows}};
  if (score.num_rows == 0) return json;
  json["mean_absolute_error"] = score.mean_absolute;
  json["median_absolute_error"] = score.median_absolute;
  json["worst_absolute_error"] = score.worst_absolute;
  json["bias"] = score.bias;
  return json;
}

ordered_json SourceToJson(const SourceScore& score) {
  return {{"source", score.source},
          {"num_rows", score.num_rows},
          {"num_skipped", score.num_skipped},
          {"step_time", ErrorsToJson(score.step_time)},
          {"memory", ErrorsToJson(score.memory)}};
}

}  // namespace

ordered_json ValidationToJson(const Validation& validation) {
  ordered_json rows = ordered_json::array();
  for (const RowResult& row : validation.rows) rows.push_back(RowToJson(row));
  ordered_json sources = ordered_json::array();
  for (const SourceScore& source : validation.sources) sources.push_back(SourceToJson(source));
  return {{"rows", std::move(rows)},
          {"sources", std::move(sources)},
          {"total", SourceToJson(validation.total)}};
}

}  // namespace tessera::planner
