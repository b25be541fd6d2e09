#include "planner/what_if/what_if.h"

namespace tessera::planner {

WhatIfResult RunWhatIf(const WhatIfRequest& request, const SweepOptions& options) {
  WhatIfResult result;
  std::vector<PointResult> found = RunSweep(request.points, options);
  for (size_t i = 0; i < found.size(); ++i) {
    WhatIfPoint point{&request.points[i], std::move(found[i]), std::nullopt};
    if (!point.found.is_done) result.is_complete = false;
    if (point.found.best && request.terms.tokens) {
      point.run = EstimateRun(point.asked->request.job, point.found.best->report, request.terms);
    }
    result.points.push_back(std::move(point));
  }
  return result;
}

}  // namespace tessera::planner
