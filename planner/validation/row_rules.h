// What a row's words mean: which cluster file a GPU's name stands for, which runtime a framework
// is, and the options that it runs with. The rules are data, see configs/measurements/rules.json.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "cost_model/spec/parallel_spec.h"
#include "cost_model/spec/runtime_spec.h"
#include "planner/validation/measurement.h"

namespace tessera::planner {

struct RowRule {
  // Each named field of the row holds the text, whatever its case. Empty: every row.
  std::map<std::string, std::string> when;
  std::string cluster;  // of configs/clusters; "": as it was
  std::string runtime;  // of configs/runtimes; "": as it was
  // JSON text: keys of the runtime and options of the layout that change; "": none.
  std::string runtime_changes;
  std::string layout_changes;
  std::string recompute;  // what the row's times show against what it states; "": as it states
  bool drops_vocab_remainder = false;  // that the tensor ranks do not divide
};

struct RowMeaning {
  std::string cluster;  // "": no rule knows the GPU
  spec::RuntimeSpec runtime;
  spec::ParallelSpec layout;  // its options; the sizes are the row's to say
  std::string recompute;      // "none", "selective", "full"; "": as the row states
  bool drops_vocab_remainder = false;
};

// Rules hold in their order: a later one overrides an earlier one. Loads each runtime once.
class RowRules {
 public:
  // Throws base::ConfigError.
  static RowRules Load(const std::string& path);

  // Throws base::ConfigError for a runtime that nobody knows.
  RowMeaning MeaningOf(const Measurement& measurement);

 private:
  explicit RowRules(std::vector<RowRule> rules) : rules_(std::move(rules)) {}
  const spec::RuntimeSpec& Runtime(const std::string& name);

  std::vector<RowRule> rules_;
  std::map<std::string, spec::RuntimeSpec> runtimes_;
};

}  // namespace tessera::planner
