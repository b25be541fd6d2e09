// A closer look at one point.
#pragma once

#include "planner/what_if/what_if.h"

namespace tessera::planner {

// Its memory term by term. REQUIRES: the point has a layout.
Detail DetailOf(const WhatIfPoint& point);

}  // namespace tessera::planner
