// Every layout that a request leaves open, the senseless ones included: what a layout breaks is
// counted, not hidden.
#pragma once

#include <functional>
#include <vector>

#include "planner/request.h"

namespace tessera::planner {

// Calls `visit` for each layout, in a fixed order, simpler choices first. tp and pp are divisors of
// the devices, dp takes what is left, micro-batch sizes divide a replica's batch, chunks per stage
// are those that change the layers of a chunk; gpipe only where it is pinned, selective
// recomputation only where attention keeps its probabilities.
void ForEachLayout(const Request& request,
                   const std::function<void(const spec::ParallelSpec&)>& visit);

// Ascending divisors. REQUIRES: n >= 1.
std::vector<int64_t> DivisorsOf(int64_t n);

// The layout that a request describes when nothing is searched: pinned axes, the plainest choice
// elsewhere, dp from the number of devices.
spec::ParallelSpec PlainLayout(const Request& request);

}  // namespace tessera::planner
