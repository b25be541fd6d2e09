#include "planner/result_json.h"

#include <nlohmann/json.hpp>

#include "cost_model/spec/parameter_list.h"
#include "cost_model/spec/plan_json.h"
#include "planner/explanation.h"

namespace tessera::planner {

using nlohmann::ordered_json;

namespace {

ordered_json ViolationsToJson(const std::vector<spec::Violation>& violations) {
  ordered_json list = ordered_json::array();
  for (const spec::Violation& violation : violations) {
    list.push_back({{"constraint", violation.constraint},
                    {"message", violation.message},
                    {"needed", violation.needed},
                    {"available", violation.available},
                    {"unit", violation.unit}});
  }
  return list;
}

}  // namespace

ordered_json LayoutToJson(const spec::ParallelSpec& parallel, const spec::StepReport& report,
                          const std::vector<spec::Violation>& violations) {
  ordered_json row = {{"feasible", violations.empty()},
                      {"violations", ViolationsToJson(violations)},
                      {"layout", spec::ParallelToJson(parallel)}};
  if (report.step_time_s > 0) row.update(spec::StepReportToJson(report));
  return row;
}

ordered_json SearchToJson(const SearchResult& search, int num_rows) {
  ordered_json rejections = ordered_json::array();
  int64_t num_rejected = 0;
  for (const Rejection& rejection : search.rejections) {
    num_rejected += rejection.num_layouts;
    rejections.push_back({{"constraint", rejection.constraint},
                          {"num_layouts", rejection.num_layouts},
                          {"example", rejection.example.message}});
  }
  ordered_json rows = ordered_json::array();
  for (const RankedLayout& row : search.rows) {
    if (static_cast<int>(rows.size()) == num_rows) break;
    rows.push_back(LayoutToJson(row.parallel, spec::WithoutTerms(row.report), {}));
  }
  return {{"num_layouts", search.num_layouts},   {"num_priced", search.num_priced},
          {"num_pruned", search.num_pruned},     {"num_rejected", num_rejected},
          {"rejections", std::move(rejections)}, {"rows", std::move(rows)}};
}

ordered_json TiesToJson(const Request& request, const SearchResult& search) {
  return {{"num_rows", NumTies(request, search)},
          {"error_band", request.error_band.share},
          {"error_band_source", request.error_band.source}};
}

ordered_json SensitivitiesToJson(const std::vector<Sensitivity>& sensitivities) {
  ordered_json list = ordered_json::array();
  for (const Sensitivity& found : sensitivities) {
    ordered_json entry = {
        {"quantity", found.quantity}, {"unit", found.unit},
        {"value", found.value},       {"direction", found.falls ? "falls below" : "rises above"},
        {"threshold", nullptr},       {"then", nullptr}};
    if (found.threshold) entry["threshold"] = *found.threshold;
    if (found.successor) entry["then"] = spec::ParallelToJson(*found.successor);
    list.push_back(std::move(entry));
  }
  return list;
}

ordered_json BestPracticeToJson(const BestPractice& practice) {
  ordered_json document = {{"rule", practice.rule}};
  if (practice.layout) {
    document.update(
        LayoutToJson(practice.layout->parallel, spec::WithoutTerms(practice.layout->report), {}));
  } else {
    document["feasible"] = false;
    document["violations"] = ViolationsToJson(practice.violations);
  }
  return document;
}

ordered_json RepairsToJson(const std::vector<Repair>& repairs) {
  ordered_json list = ordered_json::array();
  for (const Repair& repair : repairs) {
    ordered_json entry = {{"change", repair.change}, {"num_devices", repair.num_devices}};
    entry.update(
        LayoutToJson(repair.layout.parallel, spec::WithoutTerms(repair.layout.report), {}));
    list.push_back(std::move(entry));
  }
  return list;
}

ordered_json RequestToJson(const Request& request) {
  const cost_model::Job& job = request.job;
  const bool is_causal = job.convention == spec::FlopsConvention::kCausal;
  return {{"model", job.model.name},
          {"num_parameters", spec::NumParameters(job.model)},
          {"cluster", job.cluster.name},
          {"num_devices", job.num_devices},
          {"global_batch_size", job.training.global_batch_size},
          {"sequence_length", job.training.sequence_length},
          {"precision", spec::ToString(job.training.precision)},
          {"target", job.runtime.name},
          {"objective", ToString(request.objective)},
          {"flops_convention", is_causal ? "causal" : "full"}};
}

}  // namespace tessera::planner
