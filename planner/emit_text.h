// What the files for other programs have in common: comments.
#pragma once

#include <string>
#include <vector>

#include "cost_model/spec/plan.h"

namespace tessera::planner {

// What a person has to put in before the file is used.
inline constexpr const char* kFillIn = "FILL-IN";

// The text broken at blanks into lines of at most 100 columns, each after `prefix`.
std::string CommentLines(const std::string& text, const std::string& prefix = "# ");

// Commented lines: what the file is, the plan in one sentence, what it promises.
std::string HeaderText(const spec::Plan& plan, const std::string& what);

// Commented lines under "The program differs from the plan:"; nothing without warnings.
std::string WarningsText(const std::vector<std::string>& warnings);

// A floating-point number as configuration files of all kinds take it ("0.0003", "1.0", "1e-08").
std::string NumberText(double value);

}  // namespace tessera::planner
