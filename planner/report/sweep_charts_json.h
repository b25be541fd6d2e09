// Charts over all points of a sweep.
#pragma once

#include <vector>

#include "planner/report/chart.h"
#include "planner/report/what_if_view_json.h"

namespace tessera::planner {

// Throughput and MFU along the sweep; days against cost with the frontier, and goodput, where the
// length of a run is known; scaling. Charts without a mark are left out.
std::vector<Chart> SweepCharts(const WhatIfView& view);

}  // namespace tessera::planner
