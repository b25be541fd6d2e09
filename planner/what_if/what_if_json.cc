#include "planner/what_if/what_if_json.h"

#include <nlohmann/json.hpp>
#include <set>

#include "cost_model/spec/parameter_list.h"
#include "planner/layout_text.h"
#include "planner/result_json.h"
#include "planner/what_if/assumptions_json.h"
#include "planner/what_if/sections_json.h"
#include "planner/what_if/step_report_json.h"

namespace tessera::planner {
namespace {

using nlohmann::ordered_json;

ordered_json PointToJson(const WhatIfPoint& point) {
  const cost_model::Job& job = point.job();
  const PointResult& found = point.found;
  ordered_json json = {{"id", found.id},
                       {"model", job.model.name},
                       {"cluster", job.cluster.name},
                       {"devices", job.num_devices},
                       {"global_batch_size", job.training.global_batch_size},
                       {"sequence_length", job.training.sequence_length},
                       {"variant", point.asked.variant},
                       {"feasible", found.best.has_value()},
                       {"reason", found.reason}};
  if (found.best) {
    json["layout_text"] = LayoutText(found.best->parallel);
    json.update(LayoutToJson(found.best->parallel, spec::WithoutTerms(found.best->report), {}));
  }
  json["search"] = {{"num_layouts", found.num_layouts},
                    {"num_priced", found.num_priced},
                    {"num_pruned", found.num_pruned}};
  if (point.run) json["run"] = RunToJson(*point.run);
  return json;
}

ordered_json ModelsToJson(const WhatIfRequest& request) {
  ordered_json list = ordered_json::array();
  std::set<std::string> known;
  for (const SweepPoint& point : request.points) {
    const spec::ModelSpec& model = point.request.job.model;
    if (!known.insert(model.name).second) continue;
    list.push_back({{"name", model.name},
                    {"num_parameters", spec::NumParameters(model)},
                    {"num_active_parameters", spec::NumActiveParameters(model)}});
  }
  return list;
}

ordered_json ClusterToSummary(const cost_model::Job& job, const RunTerms& terms) {
  const spec::ClusterSpec& cluster = job.cluster;
  ordered_json json = {{"name", cluster.name},
                       {"device", cluster.device.name},
                       {"precision", spec::ToString(job.training.precision)},
                       {"devices_per_node", cluster.devices_per_node},
                       {"devices_per_domain", spec::DevicesPerDomain(cluster)},
                       {"memory_bytes", cluster.device.memory_bytes}};
  const auto peak =
      cluster.device.peak_flops_per_s.find(spec::TypesOf(job.training.precision).matmul);
  if (peak != cluster.device.peak_flops_per_s.end()) json["peak_flops_per_s"] = peak->second;
  json["intra_node_bandwidth_bytes_per_s"] = cluster.intra_node.bandwidth_bytes_per_s;
  json["inter_node_bandwidth_bytes_per_s"] = cluster.inter_node.bandwidth_bytes_per_s;
  json["nics_per_node"] = cluster.nics_per_node;
  if (cluster.device.power_w > 0) json["power_w"] = cluster.device.power_w;
  if (const auto price = PriceOf(cluster, terms)) json["price_per_hour"] = *price;
  return json;
}

ordered_json ClustersToJson(const WhatIfRequest& request) {
  ordered_json list = ordered_json::array();
  std::set<std::string> known;
  for (const SweepPoint& point : request.points) {
    const cost_model::Job& job = point.request.job;
    if (!point.variant.empty() || !known.insert(job.cluster.name).second) continue;
    list.push_back(ClusterToSummary(job, request.terms));
  }
  return list;
}

ordered_json TrainingToJson(const cost_model::Job& job, const RunTerms& terms) {
  const bool is_causal = job.convention == spec::FlopsConvention::kCausal;
  ordered_json json = {{"precision", spec::ToString(job.training.precision)},
                       {"flops_convention", is_causal ? "causal" : "full"},
                       {"target", job.runtime.name}};
  if (terms.tokens) json["tokens"] = *terms.tokens;
  return json;
}

}  // namespace

ordered_json WhatIfToJson(const WhatIfRequest& request, const WhatIfResult& result) {
  ordered_json document = {{"command", request.command},
                           {"complete", result.is_complete},
                           {"summary", result.summary},
                           {"models", ModelsToJson(request)}};
  if (!request.points.empty()) {
    document["training"] = TrainingToJson(request.points.front().request.job, request.terms);
  }
  document["run"] = TermsToJson(request.terms);
  document["clusters"] = ClustersToJson(request);
  ordered_json points = ordered_json::array();
  for (const WhatIfPoint& point : result.points) {
    if (point.found.is_done) points.push_back(PointToJson(point));
  }
  document["points"] = std::move(points);
  document["frontier"] = result.frontier;
  if (!result.answers.empty()) {
    document["answer"] = AnswerToJson(result.answers.front());
    ordered_json answers = ordered_json::array();
    for (const Answer& answer : result.answers) answers.push_back(AnswerToJson(answer));
    document["answers"] = std::move(answers);
  }
  document["margins"] = MarginsToJson(result.margins);
  document["crossovers"] = CrossoversToJson(result.crossovers);
  document["scaling"] = ScalingsToJson(result.scalings);
  if (result.comparison) document["comparison"] = ComparisonToJson(*result.comparison);
  document["details"] = DetailsToJson(result.details);
  document["assumptions"] = AssumptionsToJson(request);
  document["formulas"] = FormulasToJson();
  return document;
}

}  // namespace tessera::planner
