#include "planner/validation/error_score.h"

#include <algorithm>
#include <cmath>

namespace tessera::planner {
namespace {

double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
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

bool IsScored(const RowResult& row) {
  return row.is_priced() && !row.measurement.HasFlag("do_not_score");
}

std::optional<double> StepTimeError(const RowResult& row) {
  if (!IsScored(row) || !row.measurement.is_for_time) return std::nullopt;
  return row.predicted_step_time_s / *row.measurement.step_time_s - 1;
}

std::optional<double> MemoryError(const RowResult& row) {
  if (!IsScored(row) || !row.measurement.is_for_memory) return std::nullopt;
  return row.predicted_peak_memory_bytes / *row.measurement.peak_memory_bytes - 1;
}

}  // namespace tessera::planner
