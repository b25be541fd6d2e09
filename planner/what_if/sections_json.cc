#include "planner/what_if/sections_json.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "planner/layout_text.h"

namespace tessera::planner {

using nlohmann::ordered_json;

void SetFinite(ordered_json& document, const char* key, double value) {
  if (std::isfinite(value)) document[key] = value;
}

ordered_json RunToJson(const RunFigures& run) {
  ordered_json json = {{"goodput_share", run.goodput.useful_share},
                       {"checkpoint_share", run.goodput.checkpoint_share},
                       {"rework_share", run.goodput.rework_share},
                       {"restart_share", run.goodput.restart_share}};
  SetFinite(json, "mtbf_s", run.mtbf_s);
  json["checkpoint_s"] = run.checkpoint_s;
  SetFinite(json, "checkpoint_interval_s", run.goodput.interval_s);
  SetFinite(json, "expected_failures", run.expected_failures);
  json["effective_tokens_per_s"] = run.effective_tokens_per_s;
  SetFinite(json, "days", run.Days());
  SetFinite(json, "device_hours", run.device_hours);
  if (run.cost_usd) SetFinite(json, "cost_usd", *run.cost_usd);
  if (run.energy_kwh) SetFinite(json, "energy_kwh", *run.energy_kwh);
  return json;
}

ordered_json AnswerToJson(const Answer& answer) {
  ordered_json json = {{"model", answer.model},
                       {"sequence_length", answer.sequence_length},
                       {"question", answer.question},
                       {"feasible", answer.is_feasible},
                       {"text", answer.text}};
  if (answer.point) json["point"] = *answer.point;
  if (answer.fewest_devices) json["fewest_devices_point"] = *answer.fewest_devices;
  if (answer.cheapest) json["cheapest_point"] = *answer.cheapest;
  json["alternatives"] = answer.alternatives;
  json["unlock"] = answer.unlock;
  return json;
}

ordered_json MarginsToJson(const std::vector<Margin>& margins) {
  ordered_json list = ordered_json::array();
  for (const Margin& margin : margins) {
    const spec::StepReport& report = margin.layout.report;
    ordered_json json = {{"change", margin.change},
                         {"point", margin.point},
                         {"layout_text", LayoutText(margin.layout.parallel)},
                         {"step_time_s", report.step_time_s},
                         {"tokens_per_s", report.tokens_per_s},
                         {"mfu", report.mfu},
                         {"tokens_per_s_gain_share", margin.tokens_per_s_gain_share}};
    if (margin.run) SetFinite(json, "days", margin.run->Days());
    if (margin.days_saved) SetFinite(json, "days_saved", *margin.days_saved);
    if (margin.cost_saved_usd) SetFinite(json, "cost_saved_usd", *margin.cost_saved_usd);
    list.push_back(std::move(json));
  }
  return list;
}

ordered_json CrossoversToJson(const std::vector<Crossover>& crossovers) {
  ordered_json list = ordered_json::array();
  for (const Crossover& crossover : crossovers) {
    list.push_back({{"model", crossover.model},
                    {"cluster", crossover.cluster},
                    {"axis", crossover.axis},
                    {"unit", crossover.unit},
                    {"from", crossover.from},
                    {"to", crossover.to},
                    {"layout_before", crossover.layout_before},
                    {"layout_after", crossover.layout_after},
                    {"global_batch_size", crossover.global_batch_size},
                    {"sequence_length", crossover.sequence_length}});
  }
  return list;
}

ordered_json ScalingsToJson(const std::vector<ScalingCurve>& scalings) {
  ordered_json list = ordered_json::array();
  for (const ScalingCurve& scaling : scalings) {
    ordered_json steps = ordered_json::array();
    for (const ScalingCurve::Step& step : scaling.steps) {
      steps.push_back({{"devices", step.num_devices},
                       {"point", step.point},
                       {"efficiency_share", step.efficiency_share}});
    }
    list.push_back({{"model", scaling.model},
                    {"cluster", scaling.cluster},
                    {"kind", scaling.is_weak ? "weak" : "strong"},
                    {"global_batch_size", scaling.global_batch_size},
                    {"sequence_length", scaling.sequence_length},
                    {"points", std::move(steps)}});
  }
  return list;
}

namespace {

const char* PassName(spec::ActionKind kind) {
  switch (kind) {
    case spec::ActionKind::kForward:
      return "F";
    case spec::ActionKind::kBackwardInput:
      return "I";
    case spec::ActionKind::kBackwardWeight:
      return "W";
    default:
      return "B";
  }
}

ordered_json TimelineToJson(const Detail& detail) {
  const auto num_stages = static_cast<int>(detail.passes.size());
  ordered_json stages = ordered_json::array();
  for (const auto& passes : detail.passes) {
    ordered_json list = ordered_json::array();
    for (const spec::TimedAction& pass : passes) {
      list.push_back({{"kind", PassName(pass.action.kind)},
                      {"micro_batch", pass.action.microbatch},
                      {"chunk", pass.action.virtual_stage / num_stages},
                      {"start_s", pass.start_s},
                      {"end_s", pass.end_s}});
    }
    stages.push_back(std::move(list));
  }
  return {{"makespan_s", detail.step_time_s},
          {"num_actions", detail.num_passes},
          {"shown_until_s", detail.shown_until_s},
          {"stages", std::move(stages)}};
}

ordered_json MemoryTermsToJson(const Detail& detail) {
  ordered_json stages = ordered_json::array();
  for (size_t stage = 0; stage < detail.stages.size(); ++stage) {
    ordered_json terms = ordered_json::array();
    for (const spec::MemoryTerm& term : detail.stages[stage].terms) {
      terms.push_back({{"name", term.name},
                       {"bytes", term.num_bytes},
                       {"tag", term.tag},
                       {"source", term.source}});
    }
    stages.push_back({{"stage", stage}, {"terms", std::move(terms)}});
  }
  return stages;
}

}  // namespace

ordered_json DetailsToJson(const std::vector<Detail>& details) {
  ordered_json list = ordered_json::array();
  for (const Detail& detail : details) {
    list.push_back({{"point", detail.point},
                    {"timeline", TimelineToJson(detail)},
                    {"memory_stages", MemoryTermsToJson(detail)}});
  }
  return list;
}

ordered_json TermsToJson(const RunTerms& terms) {
  ordered_json json = ordered_json::object();
  if (!terms.tokens) return json;
  json["tokens"] = *terms.tokens;
  if (terms.within_s) json["within_s"] = *terms.within_s;
  if (terms.budget_usd) json["budget_usd"] = *terms.budget_usd;
  if (!terms.price_per_device_hour.empty()) {
    json["price_per_device_hour"] = terms.price_per_device_hour;
  }
  SetFinite(json, "mtbf_device_s", terms.mtbf_device_s.value);
  if (terms.checkpoint_s) json["checkpoint_s"] = terms.checkpoint_s->value;
  if (terms.storage_bandwidth_bytes_per_s) {
    json["storage_bandwidth_bytes_per_s"] = terms.storage_bandwidth_bytes_per_s->value;
  }
  json["restart_s"] = terms.restart_s.value;
  json["node_power_factor"] = terms.node_power_factor.value;
  json["power_usage_effectiveness"] = terms.power_usage_effectiveness.value;
  return json;
}

}  // namespace tessera::planner
