// The cost model's answer to one row.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cost_model/spec/step_report.h"
#include "planner/validation/measured_job.h"

namespace tessera::planner {

struct RowResult {
  Measurement measurement;
  std::string skipped;  // why there is no prediction; "": there is one
  std::string cluster;  // names of what it was priced with
  std::string runtime;
  spec::ParallelSpec parallel;
  std::vector<std::string> assumed;  // fields that the row leaves out, as chosen
  spec::StepReport report;
  double predicted_step_time_s = 0;
  double predicted_peak_memory_bytes = 0;  // in the statistic that the row measured
  bool fits = false;                       // of the layouts that the row leaves open: any

  bool is_priced() const { return skipped.empty(); }
};

// Prices a row. Of what the row leaves out the fastest choice whose tensors fit in memory is taken
// (or the one that needs least), as its authors would have chosen.
RowResult PriceRow(const Measurement& measurement, JobMaker& jobs);

}  // namespace tessera::planner
