// Figures of runs as people say them.
#pragma once

#include <string>

#include "planner/what_if/what_if.h"

namespace tessera::planner {

std::string DaysText(double days);        // "58.3 days", "7.2 hours", "1.9 years"
std::string DollarsText(double dollars);  // "$4.93 M", "$12,300"
// "2.46 M" of 2.46e6: a count in the units that people use for tokens and hours.
std::string LargeCountText(double count);
// "512 devices of dgx-h100 (2x memory of a device), global batch 1,024".
std::string PlaceText(const WhatIfPoint& point);
// "58.3 days, 2.46 M device-hours, $4.93 M". REQUIRES: the point has a run.
std::string RunText(const WhatIfPoint& point);

}  // namespace tessera::planner
