// What would make the impossible possible: declared in questions.h.
#include <algorithm>

#include "cost_model/base/check.h"
#include "planner/repairs.h"
#include "planner/what_if/device_search.h"
#include "planner/what_if/questions.h"
#include "planner/what_if/run_text.h"

namespace tessera::planner {
namespace {

using base::Concat;

bool IsOf(const Answer& answer, const WhatIfPoint& point) {
  return answer.model == point.job().model.name &&
         answer.sequence_length == point.job().training.sequence_length;
}

// The point that has the most devices: what it lacks, those of fewer devices lack as well.
const WhatIfPoint* Largest(const Answer& answer, const std::vector<WhatIfPoint>& points) {
  const WhatIfPoint* largest = nullptr;
  for (const WhatIfPoint& point : points) {
    if (!IsOf(answer, point) || !point.found.is_done) continue;
    if (largest == nullptr || point.job().num_devices > largest->job().num_devices) {
      largest = &point;
    }
  }
  return largest;
}

// Where no layout fits: the repairs of the largest point.
void AddRepairs(const WhatIfPoint& point, const RunTerms& terms, Answer& answer) {
  answer.text += Concat(" With ", PlaceText(point), " ", point.found.reason, ".");
  for (const Repair& repair : FindRepairs(point.asked.request)) {
    cost_model::Job job = point.job();
    job.num_devices = repair.num_devices;
    const RunFigures run = EstimateRun(job, repair.layout.report, terms);
    answer.unlock.push_back(Concat(repair.change, ": ", DaysText(run.Days())));
  }
}

// A run that ends in time on more devices or with a batch of twice the samples.
void AddFaster(const WhatIfRequest& request, const WhatIfPoint& nearest,
               const SweepOptions& options, Answer& answer) {
  SweepPoint doubled = nearest.asked;
  doubled.request.job.training.global_batch_size *= 2;
  std::vector<SweepPoint> bases;
  if (!request.searches_devices) bases.push_back(nearest.asked);
  bases.push_back(doubled);
  const SearchedPoint* best[2] = {nullptr, nullptr};
  const std::vector<SearchedPoint> searched = SearchDevices(bases, request.terms, options);
  for (const SearchedPoint& point : searched) {
    if (!point.found.best) continue;
    const cost_model::Job& job = point.asked.request.job;
    const RunFigures run = EstimateRun(job, point.found.best->report, request.terms);
    if (run.wall_s > *request.terms.within_s) continue;
    const bool is_doubled =
        job.training.global_batch_size == doubled.request.job.training.global_batch_size;
    const SearchedPoint*& least = best[is_doubled ? 1 : 0];
    if (least == nullptr || job.num_devices < least->asked.request.job.num_devices) least = &point;
  }
  // Twice the batch is worth telling where it saves devices.
  const bool saves =
      best[0] == nullptr || (best[1] != nullptr && best[1]->asked.request.job.num_devices <
                                                       best[0]->asked.request.job.num_devices);
  if (!saves) best[1] = nullptr;
  for (const SearchedPoint* point : best) {
    if (point == nullptr) continue;
    const cost_model::Job& job = point->asked.request.job;
    const WhatIfPoint place{point->asked, {}, std::nullopt};
    const RunFigures run = EstimateRun(job, point->found.best->report, request.terms);
    answer.unlock.push_back(Concat(PlaceText(place), ": ", DaysText(run.Days())));
  }
}

}  // namespace

void AddUnlocks(const WhatIfRequest& request, const std::vector<WhatIfPoint>& points,
                const SweepOptions& options, Answer& answer) {
  if (answer.is_feasible) return;
  if (!answer.point) {
    const WhatIfPoint* largest = Largest(answer, points);
    if (largest != nullptr && !largest->found.best) AddRepairs(*largest, request.terms, answer);
    return;
  }
  const auto nearest = std::find_if(points.begin(), points.end(), [&](const WhatIfPoint& point) {
    return point.found.id == *answer.point;
  });
  TESSERA_CHECK(nearest != points.end(), "an answer that is no point: ", *answer.point);
  const bool is_late = request.terms.within_s && nearest->run->wall_s > *request.terms.within_s;
  if (is_late) AddFaster(request, *nearest, options, answer);
}

}  // namespace tessera::planner
