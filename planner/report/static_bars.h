// Stacked bars as SVG.
#pragma once

#include <string>

#include "planner/report/chart.h"

namespace tessera::planner {

// Horizontal bars, one below the other, each made of the series' marks in their order.
// REQUIRES: figure.kind == ChartKind::kBars.
std::string StaticBars(const Chart& figure);

}  // namespace tessera::planner
