#include "planner/what_if/frontier.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "planner/layout_text.h"

namespace tessera::planner {
namespace {

// What is trained: points of different models or sequence lengths are no alternatives.
using Task = std::pair<std::string, int64_t>;
Task TaskOf(const WhatIfPoint& point) {
  return {point.job().model.name, point.job().training.sequence_length};
}

struct Cost {
  double days = 0;
  double money = 0;
  int id = 0;
};

bool Dominates(const Cost& a, const Cost& b) {
  return a.days <= b.days && a.money <= b.money && (a.days < b.days || a.money < b.money);
}

// Points of one cluster as described that differ in their devices alone (strong), or in devices and
// batch by the same factor (weak): by devices ascending.
using SeriesKey = std::tuple<Task, std::string, double>;  // task, cluster, batch (a device)
using Series = std::map<SeriesKey, std::vector<const WhatIfPoint*>>;

Series SeriesOf(const std::vector<WhatIfPoint>& points, bool is_weak) {
  Series series;
  for (const WhatIfPoint& point : points) {
    if (!point.found.best || !point.asked.variant.empty()) continue;
    const cost_model::Job& job = point.job();
    const auto batch = static_cast<double>(job.training.global_batch_size);
    series[{TaskOf(point), job.cluster.name, is_weak ? batch / job.num_devices : batch}].push_back(
        &point);
  }
  for (auto& [key, list] : series) {
    std::stable_sort(list.begin(), list.end(), [](const WhatIfPoint* a, const WhatIfPoint* b) {
      return a->job().num_devices < b->job().num_devices;
    });
  }
  return series;
}

bool HasSameMesh(const spec::ParallelSpec& a, const spec::ParallelSpec& b) {
  return a.tensor_parallel_size == b.tensor_parallel_size &&
         a.pipeline_parallel_size == b.pipeline_parallel_size &&
         a.context_parallel_size == b.context_parallel_size &&
         a.expert_parallel_size == b.expert_parallel_size;
}

}  // namespace

std::vector<int> FrontierOf(const std::vector<WhatIfPoint>& points) {
  std::map<Task, std::vector<const WhatIfPoint*>> tasks;
  for (const WhatIfPoint& point : points) {
    if (point.run && std::isfinite(point.run->wall_s)) tasks[TaskOf(point)].push_back(&point);
  }
  std::vector<int> frontier;
  for (const auto& [task, list] : tasks) {
    const bool has_prices = std::all_of(list.begin(), list.end(), [](const WhatIfPoint* point) {
      return point->run->cost_usd.has_value();
    });
    std::vector<Cost> costs;
    for (const WhatIfPoint* point : list) {
      costs.push_back({point->run->Days(),
                       has_prices ? *point->run->cost_usd : point->run->device_hours,
                       point->found.id});
    }
    std::stable_sort(costs.begin(), costs.end(),
                     [](const Cost& a, const Cost& b) { return a.days < b.days; });
    for (const Cost& cost : costs) {
      const bool is_dominated = std::any_of(
          costs.begin(), costs.end(), [&](const Cost& other) { return Dominates(other, cost); });
      if (!is_dominated) frontier.push_back(cost.id);
    }
  }
  return frontier;
}

std::vector<ScalingCurve> ScalingsOf(const std::vector<WhatIfPoint>& points) {
  std::vector<ScalingCurve> scalings;
  for (const bool is_weak : {false, true}) {
    for (const auto& [key, list] : SeriesOf(points, is_weak)) {
      if (list.front()->job().num_devices == list.back()->job().num_devices) continue;
      const cost_model::Job& first = list.front()->job();
      ScalingCurve scaling{.model = first.model.name,
                           .cluster = first.cluster.name,
                           .is_weak = is_weak,
                           .global_batch_size = first.training.global_batch_size,
                           .sequence_length = first.training.sequence_length,
                           .steps = {}};
      const double base = list.front()->found.best->report.tokens_per_s_per_device;
      for (const WhatIfPoint* point : list) {
        scaling.steps.push_back({point->job().num_devices, point->found.id,
                                 point->found.best->report.tokens_per_s_per_device / base});
      }
      scalings.push_back(std::move(scaling));
    }
  }
  return scalings;
}

std::vector<Crossover> DeviceCrossovers(const std::vector<WhatIfPoint>& points) {
  std::vector<Crossover> crossovers;
  for (const auto& [key, list] : SeriesOf(points, /*is_weak=*/false)) {
    for (size_t i = 1; i < list.size(); ++i) {
      const spec::ParallelSpec& before = list[i - 1]->found.best->parallel;
      const spec::ParallelSpec& after = list[i]->found.best->parallel;
      if (HasSameMesh(before, after)) continue;
      const cost_model::Job& job = list[i]->job();
      crossovers.push_back({.model = job.model.name,
                            .cluster = job.cluster.name,
                            .axis = "devices",
                            .unit = "devices",
                            .from = static_cast<double>(list[i - 1]->job().num_devices),
                            .to = static_cast<double>(job.num_devices),
                            .layout_before = LayoutText(before),
                            .layout_after = LayoutText(after),
                            .global_batch_size = job.training.global_batch_size,
                            .sequence_length = job.training.sequence_length});
    }
  }
  return crossovers;
}

}  // namespace tessera::planner
