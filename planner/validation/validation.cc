#include "planner/validation/validation.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace tessera::planner {
namespace {

bool IsScored(const RowResult& row) {
  return row.is_priced() && !row.measurement.HasFlag("do_not_score");
}

double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

SourceScore Score(const std::string& name, const std::vector<const RowResult*>& rows) {
  SourceScore score;
  score.source = name;
  std::vector<double> time_errors;
  std::vector<double> memory_errors;
  for (const RowResult* row : rows) {
    ++score.num_rows;
    if (!row->is_priced()) ++score.num_skipped;
    if (const auto error = StepTimeError(*row)) time_errors.push_back(*error);
    if (const auto error = MemoryError(*row)) memory_errors.push_back(*error);
  }
  score.step_time = ScoreErrors(time_errors);
  score.memory = ScoreErrors(memory_errors);
  return score;
}

}  // namespace

ErrorScore ScoreErrors(const std::vector<double>& errors) {
  ErrorScore score;
  if (errors.empty()) return score;
  std::vector<double> sizes;
  for (const double error : errors) {
    sizes.push_back(std::abs(error));
    score.bias += error;
    score.mean_absolute += sizes.back();
  }
  const auto n = static_cast<double>(errors.size());
  score.num_rows = static_cast<int64_t>(errors.size());
  score.bias /= n;
  score.mean_absolute /= n;
  score.worst_absolute = *std::max_element(sizes.begin(), sizes.end());
  score.median_absolute = MedianOf(std::move(sizes));
  return score;
}

std::optional<double> StepTimeError(const RowResult& row) {
  if (!IsScored(row) || !row.measurement.is_for_time) return std::nullopt;
  return row.predicted_step_time_s / *row.measurement.step_time_s - 1;
}

std::optional<double> MemoryError(const RowResult& row) {
  if (!IsScored(row) || !row.measurement.is_for_memory) return std::nullopt;
  return row.predicted_peak_memory_bytes / *row.measurement.peak_memory_bytes - 1;
}

Validation Validate(const std::vector<Measurement>& measurements, JobMaker& jobs) {
  Validation validation;
  for (const Measurement& measurement : measurements) {
    validation.rows.push_back(PriceRow(measurement, jobs));
  }
  std::map<std::string, std::vector<const RowResult*>> by_source;
  std::vector<const RowResult*> all;
  for (const RowResult& row : validation.rows) {
    by_source[row.measurement.source].push_back(&row);
    all.push_back(&row);
  }
  for (const auto& [source, rows] : by_source) validation.sources.push_back(Score(source, rows));
  validation.total = Score("all", all);
  return validation;
}

}  // namespace tessera::planner
