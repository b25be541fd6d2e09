// Points against each other: which are worth a look, where layouts change, how throughput scales.
#pragma once

#include <vector>

#include "planner/what_if/what_if.h"

namespace tessera::planner {

// Points of which no other of the same model and sequence length takes both no longer and no more
// money, one of them less: ids, by model, fastest first. Money is device-hours for models of which
// a point has no price.
std::vector<int> FrontierOf(const std::vector<WhatIfPoint>& points);

// Strong scaling (one batch) and weak scaling (as many samples a device), for each model, cluster
// as described and sequence length with at least two numbers of devices that a layout fits.
std::vector<ScalingCurve> ScalingsOf(const std::vector<WhatIfPoint>& points);

// Neighbouring numbers of devices whose best layouts have other meshes.
std::vector<Crossover> DeviceCrossovers(const std::vector<WhatIfPoint>& points);

}  // namespace tessera::planner
