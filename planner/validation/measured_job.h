// From a row to what the cost model prices.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cost_model/job_costs.h"
#include "planner/validation/measured_choices.h"
#include "planner/validation/measurement.h"
#include "planner/validation/row_rules.h"

namespace tessera::planner {

struct MeasuredJob {
  std::string skipped;  // why it cannot be priced; "": it can
  cost_model::Job job;
  std::vector<LayoutChoice> choices;  // at least one; the same `assumed` fields in each
};

class JobMaker {
 public:
  explicit JobMaker(RowRules rules) : rules_(std::move(rules)) {}

  // Throws base::ConfigError for a cluster or a runtime that no file describes.
  MeasuredJob Make(const Measurement& row_as_stated);

 private:
  RowRules rules_;
  std::map<std::string, spec::ClusterSpec> clusters_;
};

}  // namespace tessera::planner
