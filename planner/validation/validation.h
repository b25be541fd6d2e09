// Re-prices published measurements and scores the cost model on them.
#pragma once

#include <string>
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

// Predicted over measured, less 1. Nothing where the row was skipped, measures no time (memory), or
// asks not to be scored.
std::optional<double> StepTimeError(const RowResult& row);
std::optional<double> MemoryError(const RowResult& row);

struct SourceScore {
  std::string source;
  int64_t num_rows = 0;
  int64_t num_skipped = 0;
  ErrorScore step_time;
  ErrorScore memory;
};

struct Validation {
  std::vector<RowResult> rows;
  std::vector<SourceScore> sources;  // by name
  SourceScore total;
};

Validation Validate(const std::vector<Measurement>& measurements, JobMaker& jobs);

}  // namespace tessera::planner
