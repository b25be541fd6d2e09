// What-if: many jobs priced, each with its best layout, and what a run on them takes.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/what_if/economics.h"
#include "planner/what_if/sweep.h"

namespace tessera::planner {

struct WhatIfRequest {
  std::string command;  // as typed
  std::vector<SweepPoint> points;
  RunTerms terms;
};

// A point of the sweep with what a run there takes.
struct WhatIfPoint {
  const SweepPoint* asked = nullptr;
  PointResult found;
  std::optional<RunFigures> run;  // where a layout fits and the tokens are known
};

struct WhatIfResult {
  std::vector<WhatIfPoint> points;   // in the order of the request
  bool is_complete = true;           // false: cancelled
  std::vector<std::string> summary;  // plain sentences, the answer first
};

// The result refers to the request.
WhatIfResult RunWhatIf(const WhatIfRequest& request, const SweepOptions& options);

}  // namespace tessera::planner
