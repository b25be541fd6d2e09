// Step reports that other commands wrote, for comparisons.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "planner/what_if/comparison.h"

namespace tessera::planner {

// A file with a step's time: what `estimate --format json` prints; what `train --format json`
// prints
// ("measured"); or a file of `train --metrics`, of whose rows after the first the median step and
// the mean of each term count. What the terms leave of the step is booked as other.
// Throws base::ConfigError for files that hold none of these.
ComparedSide ReadStepReport(const std::string& path);

nlohmann::ordered_json ComparisonToJson(const Comparison& comparison);

}  // namespace tessera::planner
