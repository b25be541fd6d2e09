#include "planner/what_if/details.h"

#include <algorithm>

#include "cost_model/base/check.h"
#include "cost_model/step_timeline.h"

namespace tessera::planner {
namespace {

// When the `most_passes` that end first have ended; all of them: when the last has.
double EndOfFirst(const std::vector<std::vector<spec::TimedAction>>& passes, size_t most_passes) {
  std::vector<double> ends_s;
  for (const auto& stage : passes) {
    for (const spec::TimedAction& pass : stage) ends_s.push_back(pass.end_s);
  }
  if (ends_s.empty()) return 0;
  const size_t last = std::min(most_passes, ends_s.size()) - 1;
  std::nth_element(ends_s.begin(), ends_s.begin() + static_cast<std::ptrdiff_t>(last),
                   ends_s.end());
  return ends_s[last];
}

}  // namespace

Detail DetailOf(const WhatIfPoint& point, size_t most_passes) {
  TESSERA_CHECK(point.found.best && most_passes > 0, "nothing to show: ", point.found.id);
  const RankedLayout& best = *point.found.best;
  Detail detail{.point = point.found.id,
                .step_time_s = best.report.step_time_s,
                .stages = best.report.stages};
  cost_model::JobCosts costs(point.job());
  for (const spec::RankTimeline& stage : cost_model::PredictTimelines(costs, best.parallel)) {
    std::vector<spec::TimedAction>& passes = detail.passes.emplace_back();
    for (const spec::TimedAction& timed : stage.actions) {
      if (!spec::IsTransfer(timed.action.kind)) passes.push_back(timed);
    }
    detail.num_passes += passes.size();
  }
  detail.shown_until_s = EndOfFirst(detail.passes, most_passes);
  for (auto& stage : detail.passes) {
    std::erase_if(stage,
                  [&](const spec::TimedAction& pass) { return pass.end_s > detail.shown_until_s; });
  }
  return detail;
}

}  // namespace tessera::planner
