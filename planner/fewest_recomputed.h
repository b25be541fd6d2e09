// How few layers a layout must recompute to fit.
#pragma once

#include <vector>

#include "planner/request.h"

namespace tessera::planner {

struct FewestRecomputed {
  bool fits_without = false;  // nothing needs recomputing, or a stage has too few layers to choose
  bool fits = false;          // with some layers recomputed
  // By virtual stage, the first ones; where it does not fit all of the deepest stage but one.
  std::vector<int> layers;
  double needed_bytes = 0;  // where it does not fit
};
// The same number on every stage as far as it has them; where the runtime can, less on stages that
// need less. What `layout` says of recomputation does not count. Where it does not fit and needs
// more than `enough_bytes`, how much more is not worked out.
FewestRecomputed FindFewestRecomputed(const Request& request, cost_model::JobCosts& costs,
                                      spec::ParallelSpec layout, double enough_bytes);

}  // namespace tessera::planner
