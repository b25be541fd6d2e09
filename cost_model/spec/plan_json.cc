#include "cost_model/spec/plan_json.h"

#include <nlohmann/json.hpp>

#include "cost_model/base/error.h"
#include "cost_model/spec/field_reader_json.h"
#include "cost_model/spec/field_writer_json.h"
#include "cost_model/spec/file_write.h"
#include "cost_model/spec/spec_fields.h"
#include "cost_model/spec/spec_json.h"
#include "cost_model/spec/strict_json.h"

namespace tessera::spec {
namespace {

using base::Concat;
using base::ConfigError;
using nlohmann::json;
using nlohmann::ordered_json;

// `value` is a copy: the visit wants to write, the writer does not.
template <typename Spec>
ordered_json ToJson(Spec value, void (*visit)(FieldVisitor&, Spec&)) {
  ordered_json document;
  FieldWriter writer(document);
  visit(writer, value);
  return document;
}

std::string Dump(const ordered_json& document, int indent) {
  return document.dump(indent, ' ', false, ordered_json::error_handler_t::replace);
}

}  // namespace

ordered_json ModelToJson(const ModelSpec& model) { return ToJson(model, VisitModel); }
ordered_json ParallelToJson(const ParallelSpec& parallel) {
  return ToJson(parallel, VisitParallel);
}
ordered_json StepReportToJson(const StepReport& report) { return ToJson(report, VisitStepReport); }

ordered_json ClusterToJson(const ClusterSpec& cluster) {
  ordered_json document;
  FieldWriter writer(document, "", &cluster.sources);
  ClusterSpec copy = cluster;
  VisitCluster(writer, copy);
  return document;
}

ordered_json PlanToJson(const Plan& plan) {
  ordered_json document = {{"format_version", kPlanFormatVersion}};
  ordered_json fields = ToJson(plan, VisitPlan);
  fields["cluster"] = ClusterToJson(plan.cluster);
  document.update(fields);
  return document;
}

ModelSpec ModelFromJson(const json& document, const std::string& file) {
  ModelSpec model;
  FieldReader::Read(document, file, [&](FieldVisitor& fields) { VisitModel(fields, model); });
  CheckModel(model, file);
  return model;
}

ClusterSpec ClusterFromJson(const json& document, const std::string& file) {
  ClusterSpec cluster;
  FieldReader reader(document, file, "", &cluster.sources);
  VisitCluster(reader, cluster);
  reader.Finish();
  if (cluster.device.peak_flops_per_s.empty()) {
    throw ConfigError(file, "/device/peak_flops_per_s", "no peak", "one at least");
  }
  return cluster;
}

Plan PlanFromJson(const json& document, const std::string& file) {
  if (!document.is_object()) throw ConfigError(file, "", DescribeJson(document), "a plan");
  // First of all: another version's keys would all look like slips.
  const auto version = document.find("format_version");
  if (version == document.end() || *version != kPlanFormatVersion) {
    throw ConfigError(file, "/format_version",
                      version == document.end() ? "nothing" : DescribeJson(*version),
                      Concat(kPlanFormatVersion, " (the version this program reads)"));
  }
  Plan plan;
  FieldReader reader(document, file, "", &plan.cluster.sources, "/cluster");
  reader.Take("format_version");
  VisitPlan(reader, plan);
  reader.Finish();
  CheckModel(plan.model, file);
  return plan;
}

void CheckModel(const ModelSpec& model, const std::string& file) {
  if (model.num_attention_heads % model.num_key_value_heads != 0) {
    throw ConfigError(file, "number of key/value heads", Concat(model.num_key_value_heads),
                      Concat("a divisor of the ", model.num_attention_heads, " attention heads"));
  }
  if (model.position == PositionKind::kRope && model.head_dim % 2 != 0) {
    throw ConfigError(file, "head dimension", Concat(model.head_dim),
                      "an even number for rotary positions");
  }
  if (model.moe && model.moe->experts_per_token > model.moe->num_experts) {
    throw ConfigError(file, "experts per token", Concat(model.moe->experts_per_token),
                      Concat("at most the ", model.moe->num_experts, " experts"));
  }
}

std::string WriteModel(const ModelSpec& model) { return Dump(ModelToJson(model), 2) + "\n"; }

std::string WriteCluster(const ClusterSpec& cluster) {
  return Dump(ClusterToJson(cluster), 2) + "\n";
}

std::string WritePlan(const Plan& plan) { return Dump(PlanToJson(plan), 2) + "\n"; }

std::string WriteStepReport(const StepReport& report, int indent) {
  return Dump(StepReportToJson(report), indent);
}

Plan ReadPlan(const std::string& path) { return PlanFromJson(ReadJsonFile(path), path); }

void WritePlanFile(const Plan& plan, const std::string& path) {
  WriteFileAtomically(path, WritePlan(plan));
}

}  // namespace tessera::spec
