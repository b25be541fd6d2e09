#include "planner/what_if/summary.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "planner/layout_text.h"
#include "planner/text_format.h"
#include "planner/what_if/economics.h"
#include "planner/what_if/run_text.h"

namespace tessera::planner {
namespace {

using base::Concat;

const WhatIfPoint* PointOf(const WhatIfResult& result, int id) {
  for (const WhatIfPoint& point : result.points) {
    if (point.found.id == id) return &point;
  }
  return nullptr;
}

// Where no question was asked: the fastest and, if prices are known, the cheapest of each model.
void AddBest(const WhatIfResult& result, std::vector<std::string>& summary) {
  std::map<std::string, const WhatIfPoint*> fastest, cheapest;
  for (const WhatIfPoint& point : result.points) {
    if (!point.found.best) continue;
    const WhatIfPoint*& fast = fastest[point.job().model.name];
    if (fast == nullptr ||
        point.found.best->report.tokens_per_s > fast->found.best->report.tokens_per_s) {
      fast = &point;
    }
    if (!point.run || !point.run->cost_usd) continue;
    const WhatIfPoint*& cheap = cheapest[point.job().model.name];
    if (cheap == nullptr || *point.run->cost_usd < *cheap->run->cost_usd) cheap = &point;
  }
  for (const auto& [model, point] : fastest) {
    const spec::StepReport& report = point->found.best->report;
    summary.push_back(Concat("Fastest for ", model, ": ", PlaceText(*point), ": ",
                             LargeCountText(report.tokens_per_s), " tokens/s, ",
                             FormatPercent(report.mfu), " MFU",
                             point->run ? ", " + RunText(*point) : "", "."));
    const auto cheap = cheapest.find(model);
    if (cheap != cheapest.end() && cheap->second != point) {
      summary.push_back(Concat("Cheapest for ", model, ": ", PlaceText(*cheap->second), ": ",
                               RunText(*cheap->second), "."));
    }
  }
}

void AddChosen(const WhatIfRequest& request, const WhatIfResult& result, const Answer& answer,
               std::vector<std::string>& summary) {
  const WhatIfPoint* point = answer.point ? PointOf(result, *answer.point) : nullptr;
  if (!answer.is_feasible || point == nullptr || !point->found.best) return;
  const spec::StepReport& report = point->found.best->report;
  summary.push_back(Concat(
      "There ", point->job().model.name, " runs as ", LayoutText(point->found.best->parallel), ": ",
      FormatSeconds(report.step_time_s), " a step, ", LargeCountText(report.tokens_per_s),
      " tokens/s, ", FormatPercent(report.mfu), " MFU."));
  if (point->run && point->run->energy_kwh) {
    constexpr double kKwhPerMwh = 1000;
    const RunTerms& terms = request.terms;
    summary.push_back(
        Concat("The run draws about ", LargeCountText(*point->run->energy_kwh / kKwhPerMwh),
               " MWh: the rated power of its devices, x ",
               FormatFixed(terms.node_power_factor.value, 2), " for their nodes, x ",
               FormatFixed(terms.power_usage_effectiveness.value, 2), " for the site."));
  }
  if (!point->run || !std::isfinite(point->run->mtbf_s)) return;
  const Goodput& goodput = point->run->goodput;
  constexpr double kSecondsPerMinute = 60;
  summary.push_back(Concat(
      "Failures are expected every ", FormatFixed(point->run->mtbf_s / kSecondsPerHour, 1),
      " hours, ", LargeCountText(point->run->expected_failures),
      " in all; with a checkpoint every ", FormatFixed(goodput.interval_s / kSecondsPerMinute, 0),
      " minutes ", FormatPercent(goodput.useful_share), " of the time is useful (",
      FormatPercent(goodput.checkpoint_share), " goes to checkpoints, ",
      FormatPercent(goodput.rework_share), " to work done again, ",
      FormatPercent(goodput.restart_share), " to restarts)."));
}

void AddMargins(const WhatIfResult& result, std::vector<std::string>& summary) {
  if (result.margins.empty()) return;
  std::string gains;
  for (const Margin& margin : result.margins) {
    const double gain = margin.tokens_per_s_gain_share;
    gains += Concat(gains.empty() ? "" : "; ", margin.change, " ", gain >= 0 ? "+" : "",
                    FormatPercent(gain), " throughput");
    if (margin.cost_saved_usd && *margin.cost_saved_usd > 0) {
      gains += Concat(" (", DollarsText(*margin.cost_saved_usd), " less at the same price)");
    }
  }
  const WhatIfPoint* point = PointOf(result, result.margins.front().point);
  if (point != nullptr) summary.push_back(Concat("Worth on ", PlaceText(*point), ": ", gains, "."));
}

void AddGaps(const WhatIfRequest& request, const WhatIfResult& result,
             std::vector<std::string>& summary) {
  size_t num_without = 0, num_done = 0;
  std::vector<std::string> unpriced;
  for (const WhatIfPoint& point : result.points) {
    if (!point.found.is_done) continue;
    ++num_done;
    if (!point.found.best) ++num_without;
    const std::string& name = point.job().cluster.name;
    const bool is_known = std::find(unpriced.begin(), unpriced.end(), name) != unpriced.end();
    if (!is_known && !PriceOf(point.job().cluster, request.terms)) unpriced.push_back(name);
  }
  if (num_without > 0) {
    summary.push_back(Concat("No layout fits at ", num_without, " of ",
                             FormatPlural(static_cast<int64_t>(num_done), "point"), "."));
  }
  if (request.terms.tokens && !unpriced.empty()) {
    std::string names;
    for (const std::string& name : unpriced) names += (names.empty() ? "" : ", ") + name;
    summary.push_back(Concat("No price is known for ", names,
                             ": device-hours stand for its cost (--price sets one)."));
  }
  if (!result.is_complete) {
    summary.push_back(Concat("Cancelled: ", num_done, " points are done, the others are missing."));
  }
}

}  // namespace

std::vector<std::string> SummaryOf(const WhatIfRequest& request, const WhatIfResult& result) {
  std::vector<std::string> summary;
  for (const Answer& answer : result.answers) {
    summary.push_back(Concat(answer.question, " ", answer.text));
    std::string unlock;
    for (const std::string& change : answer.unlock) {
      unlock += Concat(unlock.empty() ? "" : "; or ", change);
    }
    if (!unlock.empty()) summary.push_back(Concat("It would take ", unlock, "."));
    AddChosen(request, result, answer, summary);
  }
  if (result.answers.empty()) AddBest(result, summary);
  AddMargins(result, summary);
  AddGaps(request, result, summary);
  return summary;
}

}  // namespace tessera::planner
