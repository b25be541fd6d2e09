// The scores as people read them.
#pragma once

#include <string>
#include <vector>

#include "planner/validation/validation.h"

namespace tessera::planner {

// A line a source and a kind of rows, memory, ranking, the worst rows, and why rows were skipped.
std::string ValidationText(const Validation& validation, int num_worst);

// Sentences: what was scored, how well, and where the model errs most. For reports.
std::vector<std::string> ValidationSummary(const Validation& validation);

// Whether recorded bounds hold.
std::string BoundsText(size_t num_bounds, const std::vector<std::string>& broken);

std::string FormatSignedPercent(double share);  // "+4.1 %"

}  // namespace tessera::planner
