#include "planner/validation/row_rules.h"

#include <algorithm>
#include <cctype>

#include "cost_model/base/check.h"
#include "cost_model/spec/spec_json.h"
#include "planner/validation/row_rules_json.h"

namespace tessera::planner {
namespace {

std::string LowerCase(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

// REQUIRES: `field` is one of RuleFields.
std::string FieldOf(const Measurement& measurement, const std::string& field) {
  const MeasuredLayout& layout = measurement.layout;
  if (field == "source") return measurement.source;
  if (field == "framework") return measurement.framework;
  if (field == "notes") return measurement.notes;
  if (field == "gpu") return measurement.hardware.gpu;
  if (field == "model") return measurement.model.name;
  if (field == "inter_node") return measurement.hardware.inter_node;
  if (field == "fsdp") return layout.fsdp;
  if (field == "precision") return layout.precision;
  if (field == "attention_kernel") return layout.attention_kernel;
  if (field == "optimizer") return layout.optimizer;
  if (field == "schedule") return layout.schedule;
  if (field == "flash_attention") {
    return !layout.flash_attention ? "" : *layout.flash_attention ? "true" : "false";
  }
  TESSERA_CHECK(field == "flags", "a rule asks for the field ", field);
  std::string flags;
  for (const std::string& flag : measurement.flags) flags += flag + "\n";
  return flags;
}

bool Holds(const RowRule& rule, const Measurement& measurement) {
  return std::all_of(rule.when.begin(), rule.when.end(), [&](const auto& condition) {
    const std::string field = LowerCase(FieldOf(measurement, condition.first));
    return field.find(LowerCase(condition.second)) != std::string::npos;
  });
}

}  // namespace

RowRules RowRules::Load(const std::string& path) { return RowRules(ReadRowRules(path)); }

const spec::RuntimeSpec& RowRules::Runtime(const std::string& name) {
  auto found = runtimes_.find(name);
  if (found == runtimes_.end()) {
    found = runtimes_.emplace(name, spec::LoadRuntime(name)).first;
  }
  return found->second;
}

RowMeaning RowRules::MeaningOf(const Measurement& measurement) {
  RowMeaning meaning;
  for (const RowRule& rule : rules_) {
    if (!Holds(rule, measurement)) continue;
    if (!rule.cluster.empty()) meaning.cluster = rule.cluster;
    if (!rule.runtime.empty()) meaning.runtime = Runtime(rule.runtime);
    if (!rule.runtime_changes.empty()) ChangeRuntime(rule.runtime_changes, meaning.runtime);
    if (!rule.layout_changes.empty()) ChangeLayout(rule.layout_changes, meaning.layout);
    if (!rule.recompute.empty()) meaning.recompute = rule.recompute;
    if (rule.drops_vocab_remainder) meaning.drops_vocab_remainder = true;
  }
  return meaning;
}

}  // namespace tessera::planner
