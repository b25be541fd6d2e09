// What one more of something is worth: a changed cluster under a point, searched again.
#pragma once

#include <vector>

#include "planner/what_if/cluster_change.h"
#include "planner/what_if/what_if.h"

namespace tessera::planner {

// One more NIC a node, twice each link, twice the memory, a device twice as fast: those that a job
// on such a cluster can feel.
std::vector<ClusterChange> MarginalChanges(const cost_model::Job& job);

// The changes under a point, in order; those after which nothing fits are left out.
// REQUIRES: the point has a layout.
std::vector<Margin> FindMargins(const WhatIfPoint& point, const RunTerms& terms,
                                const SweepOptions& options);

// Where another layout takes over as a number of the cluster changes under a point, by bisection
// among the layouts that come closest (FindSensitivities). REQUIRES: the point has a layout.
std::vector<Crossover> ClusterCrossovers(const WhatIfPoint& point);

}  // namespace tessera::planner
