// How far predictions are from measurements.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/validation/row_result.h"

namespace tessera::planner {

// Relative errors (predicted / measured - 1) of one figure over some rows.
struct ErrorScore {
  int64_t num_rows = 0;
  double mean_absolute = 0;
  double median_absolute = 0;
  double worst_absolute = 0;
  double bias = 0;  // mean of the signed errors
};
ErrorScore ScoreErrors(const std::vector<double>& errors);

// Whether a row takes part in scores: priced, and without the flag do_not_score.
bool IsScored(const RowResult& row);

// Predicted over measured, less 1. Nothing for a row that is not scored or does not measure it.
std::optional<double> StepTimeError(const RowResult& row);
std::optional<double> MemoryError(const RowResult& row);

}  // namespace tessera::planner
