// How few layers a layout must recompute to fit.
#pragma once

#include <vector>

#include "planner/request.h"

namespace tessera::planner {

struct FewestRecomputed {
  // By virtual stage, the first ones; empty where none, or all of a stage, are to be recomputed.
  std::vector<int> layers;
  bool fits_without = false;  // nothing needs recomputing
  double needed_bytes = 0;    // where it does not fit: with all layers of a stage but one
};
// The same number on every stage as far as it has them; where the runtime can, less on stages that
// need less. What `layout` says of recomputation does not count.
FewestRecomputed FindFewestRecomputed(const Request& request, cost_model::JobCosts& costs,
                                      spec::ParallelSpec layout);

}  // namespace tessera::planner
