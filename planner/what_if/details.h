// A closer look at one point.
#pragma once

#include "planner/what_if/what_if.h"

namespace tessera::planner {

// Passes that a detail tells at most: what a picture can show.
inline constexpr size_t kMostPasses = 4000;

// Its pipeline in time, and its memory term by term. REQUIRES: the point has a layout.
Detail DetailOf(const WhatIfPoint& point, size_t most_passes = kMostPasses);

}  // namespace tessera::planner
