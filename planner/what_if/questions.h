// Direct answers: which devices to take for a deadline and a budget.
#pragma once

#include <vector>

#include "planner/what_if/what_if.h"

namespace tessera::planner {

// One answer for each model and sequence length. With a deadline the cheapest point that keeps it
// (and the budget), or, where a price is missing, the one of fewest devices; with a budget alone
// the fastest that it pays for. Where none does, the point that comes closest and what would make
// it possible. Empty without a deadline and a budget. REQUIRES: terms have tokens.
std::vector<Answer> AnswerQuestions(const std::vector<WhatIfPoint>& points, const RunTerms& terms);

// What to try where an answer is that nothing suffices; filled in from further searches: larger
// numbers of devices and batches where too few devices were given, repairs where no layout fits.
void AddUnlocks(const WhatIfRequest& request, const std::vector<WhatIfPoint>& points,
                const SweepOptions& options, Answer& answer);

}  // namespace tessera::planner
