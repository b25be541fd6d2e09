#include "planner/what_if/what_if.h"

#include <algorithm>
#include <map>

#include "planner/what_if/details.h"
#include "planner/what_if/device_search.h"
#include "planner/what_if/frontier.h"
#include "planner/what_if/margins.h"
#include "planner/what_if/questions.h"
#include "planner/what_if/summary.h"

namespace tessera::planner {
namespace {

WhatIfPoint MakePoint(SweepPoint asked, PointResult found, const RunTerms& terms) {
  WhatIfPoint point{std::move(asked), std::move(found), std::nullopt};
  if (point.found.best && terms.tokens) {
    point.run = EstimateRun(point.job(), point.found.best->report, terms);
  }
  return point;
}

std::vector<WhatIfPoint> SweepGiven(const WhatIfRequest& request, const SweepOptions& options) {
  std::vector<WhatIfPoint> points;
  std::vector<PointResult> found = RunSweep(request.points, options);
  for (size_t i = 0; i < found.size(); ++i) {
    points.push_back(MakePoint(request.points[i], std::move(found[i]), request.terms));
  }
  return points;
}

std::vector<WhatIfPoint> SweepSearched(const WhatIfRequest& request, const SweepOptions& options) {
  std::vector<WhatIfPoint> points;
  for (SearchedPoint& point : SearchDevices(request.points, request.terms, options)) {
    points.push_back(MakePoint(std::move(point.asked), std::move(point.found), request.terms));
    points.back().found.id = static_cast<int>(points.size()) - 1;
  }
  return points;
}

// The points worth a closer look: those answered, or else the fastest of each model and cluster,
// the fastest of all first.
std::vector<const WhatIfPoint*> FocusOf(const WhatIfResult& result) {
  std::vector<const WhatIfPoint*> focus;
  const auto add = [&](int id) {
    for (const WhatIfPoint& point : result.points) {
      const bool is_new = std::find(focus.begin(), focus.end(), &point) == focus.end();
      if (point.found.id == id && point.found.best && is_new) focus.push_back(&point);
    }
  };
  for (const Answer& answer : result.answers) {
    if (answer.point) add(*answer.point);
  }
  for (const Answer& answer : result.answers) {
    for (const int id : answer.alternatives) add(id);
  }
  if (focus.empty()) {
    std::map<std::pair<std::string, std::string>, const WhatIfPoint*> fastest;
    for (const WhatIfPoint& point : result.points) {
      if (!point.found.best || !point.asked.variant.empty()) continue;
      const WhatIfPoint*& best = fastest[{point.job().model.name, point.job().cluster.name}];
      if (best == nullptr ||
          point.found.best->report.tokens_per_s > best->found.best->report.tokens_per_s) {
        best = &point;
      }
    }
    for (const auto& [key, point] : fastest) focus.push_back(point);
    std::stable_sort(focus.begin(), focus.end(), [](const WhatIfPoint* a, const WhatIfPoint* b) {
      return a->found.best->report.tokens_per_s > b->found.best->report.tokens_per_s;
    });
  }
  if (focus.size() > kMostDetails) focus.resize(kMostDetails);
  return focus;
}

}  // namespace

WhatIfResult RunWhatIf(const WhatIfRequest& request, const SweepOptions& options) {
  WhatIfResult result;
  result.points =
      request.searches_devices ? SweepSearched(request, options) : SweepGiven(request, options);
  if (request.terms.tokens) result.answers = AnswerQuestions(result.points, request.terms);
  SweepOptions quietly = options;  // what follows is a few points more
  quietly.progress = nullptr;
  for (Answer& answer : result.answers) AddUnlocks(request, result.points, quietly, answer);
  result.frontier = FrontierOf(result.points);
  result.scalings = ScalingsOf(result.points);
  result.crossovers = DeviceCrossovers(result.points);
  const std::vector<const WhatIfPoint*> focus = FocusOf(result);
  if (!options.stop.stop_requested()) {
    for (const WhatIfPoint* point : focus) result.details.push_back(DetailOf(*point));
  }
  if (request.finds_margins && !focus.empty() && !options.stop.stop_requested()) {
    const WhatIfPoint& first = *focus.front();
    result.margins = FindMargins(first, request.terms, quietly);
    for (Crossover& crossover : ClusterCrossovers(first)) {
      result.crossovers.push_back(std::move(crossover));
    }
  }
  result.is_complete = !options.stop.stop_requested();
  result.summary = SummaryOf(request, result);
  return result;
}

}  // namespace tessera::planner
