// The JSON part of row_rules.h.
#pragma once

#include <string>
#include <vector>

#include "planner/validation/row_rules.h"

namespace tessera::planner {

// Fields of a row that a rule's condition may name.
const std::vector<std::string>& RuleFields();

// Throws base::ConfigError.
std::vector<RowRule> ReadRowRules(const std::string& path);

// Overwrites what `changes` (a JSON object as text) holds. Throws base::ConfigError for keys that a
// runtime or the options of a layout have not.
void ChangeRuntime(const std::string& changes, spec::RuntimeSpec& runtime);
void ChangeLayout(const std::string& changes, spec::ParallelSpec& layout);

}  // namespace tessera::planner
