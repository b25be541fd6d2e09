// The search: every layout priced in closed form, the best of them exactly.
#pragma once

#include <string>
#include <vector>

#include "cost_model/step_cost.h"
#include "planner/request.h"

namespace tessera::planner {

struct RankedLayout {
  spec::ParallelSpec parallel;
  spec::StepReport report;
};

// Layouts that one constraint ruled out, counted by the first constraint that each breaks.
struct Rejection {
  std::string constraint;
  int64_t num_layouts = 0;
  spec::Violation example;
};

struct SearchResult {
  std::vector<RankedLayout> rows;  // fastest first: all that were priced exactly
  int64_t num_layouts = 0;
  int64_t num_feasible = 0;
  std::vector<Rejection> rejections;  // most frequent first, each with an example
};

// Layouts that are priced exactly at most: the closed form is within a few per cent of the
// simulation, so the best lies among them.
inline constexpr int kNumExact = 50;

SearchResult Search(const Request& request, cost_model::JobCosts& costs);

// Prices one layout exactly, or says what it breaks.
cost_model::StepPrice PriceLayout(const Request& request, const spec::ParallelSpec& parallel,
                                  cost_model::JobCosts& costs);

}  // namespace tessera::planner
