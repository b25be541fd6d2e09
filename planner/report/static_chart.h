// Charts as SVG: what is printed, what readers without scripts see, and all there is where the
// program was built without Chart.js.
#pragma once

#include <string>

#include "planner/report/chart.h"

namespace tessera::planner {

// An <svg> whose colours are those of page.css, so that it follows light and dark. Each series is
// a group that the page's filters can hide; each mark has its text as a tooltip. Marks without a
// place (not finite, or not positive on a logarithmic axis) are left out.
std::string StaticChart(const Chart& figure);

}  // namespace tessera::planner
