// Layouts and prices in words and tables.
#pragma once

#include <string>
#include <vector>

#include "planner/request.h"
#include "planner/search.h"

namespace tessera::planner {

// "tp 8, pp 4 (vpp 3), dp 2, micro-batch 1, sequence parallel, no recomputation, zero 1".
std::string LayoutText(const spec::ParallelSpec& parallel);

// "GPT-3 175B (175.2 B parameters) on 64 x A100, batch 64 x 2,048 tokens, bf16".
std::string RequestText(const Request& request);

// One exposed part of a step's time.
struct TimeTerm {
  std::string name;
  double seconds = 0;
};
// All terms, in a fixed order; they sum to the step time.
std::vector<TimeTerm> TermsOf(const spec::TimeBreakdown& time);

// Everything about one priced layout: step time, rates with their formula, time terms with their
// shares, memory by stage.
std::string BreakdownText(const RankedLayout& layout, const Request& request);

}  // namespace tessera::planner
