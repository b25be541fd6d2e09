#include "planner/validation/row_rules_json.h"

#include <nlohmann/json.hpp>

#include "cost_model/base/error.h"
#include "cost_model/spec/field_reader_json.h"
#include "cost_model/spec/spec_fields.h"
#include "cost_model/spec/strict_json.h"

namespace tessera::planner {
namespace {

using nlohmann::json;
using spec::FieldVisitor;
constexpr spec::Presence kOptional = spec::Presence::kOptional;

// What a program decides for its user: no sizes, and nothing that rows themselves state.
void VisitLayoutOptions(FieldVisitor& fields, spec::ParallelSpec& layout) {
  fields.Mode("attention", layout.attention, kOptional);
  fields.Mode("context_kind", layout.context_kind, kOptional);
  fields.Mode("gradient_reduce_type", layout.gradient_reduce_type, kOptional);
  fields.Text("rank_order", layout.rank_order, kOptional);
  fields.Integer("vocab_size_multiple", layout.vocab_size_multiple, spec::kSizeRange, kOptional);
  fields.Integer("bucket_elements", layout.bucket_elements, spec::kSizeRange, kOptional);
  fields.Flag("overlap_grad_reduce", layout.overlap_grad_reduce, kOptional);
  fields.Flag("overlap_param_gather", layout.overlap_param_gather, kOptional);
  fields.Flag("overlap_tp_comm", layout.overlap_tp_comm, kOptional);
  fields.Flag("overlap_pp_comm", layout.overlap_pp_comm, kOptional);
  fields.Flag("scatter_gather_transfers", layout.scatter_gather_transfers, kOptional);
}

void VisitRule(FieldVisitor& fields, RowRule& rule) {
  fields.Remark("source");
  fields.Object("when", [&](FieldVisitor& section) {
    for (const std::string& field : RuleFields()) {
      if (section.Present(field, false)) section.Text(field, rule.when[field]);
    }
  });
  fields.Text("cluster", rule.cluster, kOptional);
  fields.Text("runtime", rule.runtime, kOptional);
  fields.Text("recompute_in_truth", rule.recompute, kOptional);
  fields.Flag("drops_vocab_remainder", rule.drops_vocab_remainder, kOptional);
  // Known keys; ReadRowRules keeps their text.
  static_cast<void>(fields.Present("runtime_changes", false));
  static_cast<void>(fields.Present("layout_changes", false));
}

json ParseChanges(const std::string& changes) {
  const json document = spec::ParseJson(changes, "changes of a rule");
  if (!document.is_object()) {
    throw base::ConfigError("changes of a rule", "", spec::DescribeJson(document), "an object");
  }
  return document;
}

}  // namespace

const std::vector<std::string>& RuleFields() {
  static const std::vector<std::string> kFields = {"source",    "framework", "model",
                                                   "notes",     "gpu",       "inter_node",
                                                   "fsdp",      "precision", "attention_kernel",
                                                   "optimizer", "schedule",  "flash_attention",
                                                   "flags"};
  return kFields;
}

void ChangeRuntime(const std::string& changes, spec::RuntimeSpec& runtime) {
  json document = ParseChanges(changes);
  document["name"] = runtime.name;
  spec::FieldReader::Read(document, "runtime_changes",
                          [&](FieldVisitor& fields) { spec::VisitRuntime(fields, runtime); });
}

void ChangeLayout(const std::string& changes, spec::ParallelSpec& layout) {
  spec::FieldReader::Read(ParseChanges(changes), "layout_changes",
                          [&](FieldVisitor& fields) { VisitLayoutOptions(fields, layout); });
}

std::vector<RowRule> ReadRowRules(const std::string& path) {
  const json document = spec::ReadJsonFile(path);
  std::vector<RowRule> rules;
  spec::FieldReader::Read(document, path, [&](FieldVisitor& fields) {
    fields.Remark("source");
    fields.Objects(
        "rules", 0, [&](std::size_t size) { rules.resize(size); },
        [&](FieldVisitor& rule, std::size_t i) { VisitRule(rule, rules[i]); });
  });
  for (std::size_t i = 0; i < rules.size(); ++i) {
    const json& rule = document["rules"][i];
    spec::RuntimeSpec any_runtime;
    spec::ParallelSpec any_layout;
    if (rule.contains("runtime_changes")) {
      rules[i].runtime_changes = rule["runtime_changes"].dump();
      ChangeRuntime(rules[i].runtime_changes, any_runtime);
    }
    if (rule.contains("layout_changes")) {
      rules[i].layout_changes = rule["layout_changes"].dump();
      ChangeLayout(rules[i].layout_changes, any_layout);
    }
  }
  return rules;
}

}  // namespace tessera::planner
