// Charts of single points: where the time of a step goes, and the memory of a stage.
#pragma once

#include <optional>
#include <vector>

#include "planner/report/chart.h"
#include "planner/report/what_if_view_json.h"

namespace tessera::planner {

// The parts of a step's time, in order, with the paths at which a point has them.
struct StepTerm {
  std::string path;  // "time/bubble_s"
  std::string name;
  std::string color;
};
// Those that are not zero in one of the points at least. Computing is split into its passes where
// the points say so; either way the terms of a point sum to its step.
std::vector<StepTerm> StepTermsOf(const std::vector<const Json*>& points);

// A bar for each of the best points, parts as shares of the step; nullopt: no point has terms.
std::optional<Chart> StepTimeChart(const WhatIfView& view);

// A bar for each pipeline stage of a point with details; nullopt: they say nothing of memory.
std::optional<Chart> MemoryChart(const WhatIfView& view, const Json& detail);

// Two steps side by side, term by term; nullopt: there is no comparison.
std::optional<Chart> ComparisonChart(const WhatIfView& view);

}  // namespace tessera::planner
