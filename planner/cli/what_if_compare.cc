#include "planner/cli/what_if_compare.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cost_model/base/error.h"
#include "cost_model/spec/spec_json.h"
#include "cost_model/spec/strict_json.h"
#include "planner/explanation.h"
#include "planner/layout_text.h"
#include "planner/search.h"
#include "planner/target.h"
#include "planner/what_if/step_report_json.h"

namespace tessera::planner {
namespace {

ComparedSide SideOfCluster(const WhatIfOptions& options, const std::string& cluster) {
  if (options.models.size() != 1) {
    throw base::ConfigError("--compare", "", base::Concat("the cluster ", cluster),
                            "one --model to run there");
  }
  JobOptions job = options.job;
  job.model = options.models.front();
  job.cluster = cluster;
  if (!options.device_counts.empty()) job.num_devices = options.device_counts.front();
  if (!options.global_batch_sizes.empty()) job.global_batch_size = options.global_batch_sizes[0];
  if (!options.sequence_lengths.empty()) job.sequence_length = options.sequence_lengths.front();
  std::vector<std::string> notes;
  const Request request = MakeRequest(job, notes);
  cost_model::JobCosts costs(request.job);
  SearchResult search = SearchBest(request, costs);
  if (search.rows.empty()) {
    throw base::InfeasibleError(base::Concat(cluster, ": ", WhyNothingFits(search)));
  }
  RankedLayout& best = search.rows.front();
  return {request.job.cluster.name, "cluster", LayoutText(best.parallel), std::move(best.report)};
}

// Priced by the program that would run it.
ComparedSide SideOfPlan(const WhatIfOptions& options, const std::string& path) {
  const spec::Plan plan = spec::ReadPlan(path);
  Request request;
  request.job.model = plan.model;
  request.job.cluster = plan.cluster;
  request.job.training = plan.training;
  request.job.num_devices = plan.num_devices;
  const bool is_pool = plan.cluster.shared_compute_units > 0;
  LoadTarget(options.job.target.value_or(is_pool ? "tessera" : "megatron"), request);
  cost_model::JobCosts costs(request.job);
  cost_model::StepPrice price = PriceLayout(request, plan.parallel, costs);
  if (price.report.step_time_s <= 0) {
    throw base::InfeasibleError(base::Concat(path, ": ", price.violations.front().message));
  }
  return {path, "plan", LayoutText(plan.parallel), std::move(price.report)};
}

ComparedSide MakeSide(const WhatIfOptions& options, const std::string& name) {
  if (!spec::PresetPath("clusters", name).empty()) return SideOfCluster(options, name);
  if (!std::filesystem::is_regular_file(name)) {
    throw base::ConfigError("--compare", "", name, "a cluster's name, or a file that is there");
  }
  const nlohmann::json document =
      nlohmann::json::parse(spec::ReadTextFile(name), nullptr, /*allow_exceptions=*/false);
  if (document.is_object() && document.contains("format_version")) {
    return SideOfPlan(options, name);
  }
  if (document.is_object() && document.contains("device")) return SideOfCluster(options, name);
  return ReadStepReport(name);
}

}  // namespace

Comparison MakeComparison(const WhatIfOptions& options) {
  if (options.compared.size() != 2) {
    throw base::ConfigError("--compare", "", base::Concat(options.compared.size(), " names"),
                            "two: plans, clusters or step reports");
  }
  return Compare(MakeSide(options, options.compared[0]), MakeSide(options, options.compared[1]));
}

}  // namespace tessera::planner
