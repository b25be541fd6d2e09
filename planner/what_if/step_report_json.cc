#include "planner/what_if/step_report_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "cost_model/base/error.h"
#include "cost_model/spec/strict_json.h"

namespace tessera::planner {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// Zero where the object lacks the key.
double NumberAt(const json& object, const char* key) {
  const auto found = object.find(key);
  return found != object.end() && found->is_number() ? found->get<double>() : 0.0;
}

struct TermKey {
  const char* key;
  double spec::TimeBreakdown::*term;
};
constexpr TermKey kReportTerms[] = {{"forward_s", &spec::TimeBreakdown::forward_s},
                                    {"backward_s", &spec::TimeBreakdown::backward_s},
                                    {"recompute_s", &spec::TimeBreakdown::recompute_s},
                                    {"tp_comm_s", &spec::TimeBreakdown::tp_comm_s},
                                    {"pp_comm_s", &spec::TimeBreakdown::pp_comm_s},
                                    {"dp_comm_s", &spec::TimeBreakdown::dp_comm_s},
                                    {"cp_comm_s", &spec::TimeBreakdown::cp_comm_s},
                                    {"ep_comm_s", &spec::TimeBreakdown::ep_comm_s},
                                    {"bubble_s", &spec::TimeBreakdown::bubble_s},
                                    {"pp_wait_s", &spec::TimeBreakdown::bubble_s},
                                    {"optimizer_s", &spec::TimeBreakdown::optimizer_s},
                                    {"other_s", &spec::TimeBreakdown::other_s},
                                    {"straggler_s", &spec::TimeBreakdown::straggler_s}};

void AddTerms(const json& object, double share, spec::TimeBreakdown& time) {
  for (const TermKey& term : kReportTerms) time.*term.term += share * NumberAt(object, term.key);
}

void BookTheRest(spec::StepReport& report) {
  report.time.other_s += report.step_time_s - report.time.Total();
}

void ReadRates(const json& object, spec::StepReport& report) {
  report.tokens_per_s = NumberAt(object, "tokens_per_s");
  report.model_tflops_per_device = NumberAt(object, "model_tflops_per_device");
  report.mfu = NumberAt(object, "mfu");
}

bool HasStep(const json& object) {
  return object.is_object() && object.contains("time") && object["time"].is_object() &&
         NumberAt(object, "step_time_s") > 0;
}

spec::StepReport ReadReport(const json& object) {
  spec::StepReport report;
  report.step_time_s = NumberAt(object, "step_time_s");
  ReadRates(object, report);
  AddTerms(object["time"], 1, report.time);
  const auto compute = object.find("compute");  // forward, backward and recomputation apart
  if (compute != object.end() && compute->is_object()) AddTerms(*compute, 1, report.time);
  BookTheRest(report);
  return report;
}

// A row a line. The first step warms up.
spec::StepReport ReadMetrics(const std::string& text, const std::string& path) {
  std::vector<json> rows;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    rows.push_back(spec::ParseJson(line, path));
    if (!rows.back().is_object() || NumberAt(rows.back(), "step_time_s") <= 0) {
      throw base::ConfigError(path, base::Concat("row ", rows.size()), "no step_time_s",
                              "the rows that train --metrics writes");
    }
  }
  if (rows.empty()) throw base::ConfigError(path, "", "no rows", "a plan or a step report");
  if (rows.size() > 1) rows.erase(rows.begin());
  std::sort(rows.begin(), rows.end(), [](const json& a, const json& b) {
    return NumberAt(a, "step_time_s") < NumberAt(b, "step_time_s");
  });
  spec::StepReport report;
  const json& median = rows[rows.size() / 2];
  report.step_time_s = NumberAt(median, "step_time_s");
  ReadRates(median, report);
  for (const json& row : rows) AddTerms(row, 1.0 / static_cast<double>(rows.size()), report.time);
  BookTheRest(report);
  return report;
}

}  // namespace

ComparedSide ReadStepReport(const std::string& path) {
  const std::string text = spec::ReadTextFile(path);
  ComparedSide side;
  side.name = path;
  // Rows of metrics are objects one after the other, which is no document.
  const json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded() ||
      (document.is_object() && !document.contains("time") && document.contains("loss"))) {
    side.kind = "measurement";
    side.report = ReadMetrics(text, path);
    return side;
  }
  if (document.is_object() && document.contains("measured") && HasStep(document["measured"])) {
    side.kind = "measurement";
    side.report = ReadReport(document["measured"]);
    return side;
  }
  if (HasStep(document)) {
    side.kind = "estimate";
    side.report = ReadReport(document);
    return side;
  }
  throw base::ConfigError(path, "", "no step time",
                          "a plan, a cluster, what estimate or train print as JSON, or metrics");
}

ordered_json ComparisonToJson(const Comparison& comparison) {
  const auto side = [](const ComparedSide& of) {
    return ordered_json{{"name", of.name},
                        {"kind", of.kind},
                        {"layout_text", of.layout_text},
                        {"step_time_s", of.report.step_time_s},
                        {"tokens_per_s", of.report.tokens_per_s},
                        {"mfu", of.report.mfu}};
  };
  ordered_json terms = ordered_json::array();
  for (const ComparedTerm& term : comparison.terms) {
    terms.push_back({{"term", term.term},
                     {"name", term.name},
                     {"a", term.a_s},
                     {"b", term.b_s},
                     {"difference", term.DifferenceS()}});
  }
  return {{"a", side(comparison.a)},
          {"b", side(comparison.b)},
          {"terms", std::move(terms)},
          {"sentence", comparison.sentence}};
}

}  // namespace tessera::planner
