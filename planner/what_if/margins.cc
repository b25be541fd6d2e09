#include "planner/what_if/margins.h"

#include "planner/layout_text.h"
#include "planner/sensitivity.h"

namespace tessera::planner {
namespace {

Margin MarginOf(const WhatIfPoint& base, const SweepPoint& changed, RankedLayout layout,
                const RunTerms& terms) {
  Margin margin{.change = changed.variant, .point = base.found.id, .layout = std::move(layout)};
  const double before = base.found.best->report.tokens_per_s;
  margin.tokens_per_s_gain_share = margin.layout.report.tokens_per_s / before - 1;
  if (!base.run) return margin;
  margin.run = EstimateRun(changed.request.job, margin.layout.report, terms);
  margin.days_saved = base.run->Days() - margin.run->Days();
  if (base.run->cost_usd && margin.run->cost_usd) {
    margin.cost_saved_usd = *base.run->cost_usd - *margin.run->cost_usd;
  }
  return margin;
}

}  // namespace

std::vector<ClusterChange> MarginalChanges(const cost_model::Job& job) {
  const spec::ClusterSpec& cluster = job.cluster;
  std::vector<ClusterChange> changes;
  const bool is_pool = cluster.shared_compute_units > 0;
  if (!is_pool && job.num_devices > cluster.devices_per_node) {
    changes.push_back(
        {ClusterQuantity::kNicsPerNode, false, static_cast<double>(cluster.nics_per_node + 1)});
    changes.push_back({ClusterQuantity::kInterNodeBandwidth, true, 2});
  }
  if (!is_pool && job.num_devices > 1 && cluster.devices_per_node > 1) {
    changes.push_back({ClusterQuantity::kIntraNodeBandwidth, true, 2});
  }
  changes.push_back({ClusterQuantity::kMemory, true, 2});
  changes.push_back({ClusterQuantity::kDeviceSpeed, true, 2});
  return changes;
}

std::vector<Margin> FindMargins(const WhatIfPoint& point, const RunTerms& terms,
                                const SweepOptions& options) {
  std::vector<SweepPoint> changed;
  for (const ClusterChange& change : MarginalChanges(point.job())) {
    SweepPoint next = point.asked;
    Apply(change, next.request.job.cluster);
    next.variant = ChangeText(change);
    changed.push_back(std::move(next));
  }
  std::vector<PointResult> found = RunSweep(changed, options);
  std::vector<Margin> margins;
  for (size_t i = 0; i < found.size(); ++i) {
    if (!found[i].best) continue;
    margins.push_back(MarginOf(point, changed[i], std::move(*found[i].best), terms));
  }
  return margins;
}

std::vector<Crossover> ClusterCrossovers(const WhatIfPoint& point) {
  const cost_model::Job& job = point.job();
  cost_model::JobCosts costs(job);
  const SearchResult search = Search(point.asked.request, costs);
  std::vector<Crossover> crossovers;
  for (const Sensitivity& found : FindSensitivities(point.asked.request, search)) {
    if (!found.threshold) continue;
    crossovers.push_back(
        {.model = job.model.name,
         .cluster = job.cluster.name,
         .axis = found.quantity,
         .unit = found.unit,
         .from = found.value,
         .to = *found.threshold,
         .layout_before = LayoutText(search.rows.front().parallel),
         .layout_after = found.successor ? LayoutText(*found.successor) : std::string("none fits"),
         .global_batch_size = job.training.global_batch_size,
         .sequence_length = job.training.sequence_length});
  }
  return crossovers;
}

}  // namespace tessera::planner
