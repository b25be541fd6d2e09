// What a rule of thumb would pick, priced beside the planner's choice.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/search.h"

namespace tessera::planner {

struct BestPractice {
  std::string rule;  // "TP 8, PP 4, the rest data-parallel"
  int tensor_parallel_size = 1;
  int pipeline_parallel_size = 1;
  // The fastest layout that keeps the rule; absent when none fits.
  std::optional<RankedLayout> layout;
  std::vector<spec::Violation> violations;  // why none does, at least one
};

// The usual table for nodes of eight GPUs: tensor parallelism fills the node, then pipeline stages
// (8 GPUs: TP 8 PP 1; 16: TP 8 PP 2; from 32: TP 8 PP 4), then data parallelism takes the rest.
// Absent for pools and for nodes of fewer than eight devices, which the table is not about.
std::optional<BestPractice> PriceBestPractice(const Request& request, cost_model::JobCosts& costs);

}  // namespace tessera::planner
