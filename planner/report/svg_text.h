// Pieces of SVG.
#pragma once

#include <string>

#include "planner/report/chart.h"

namespace tessera::planner {

struct SvgPoint {
  double x = 0;
  double y = 0;
};

// To a tenth of a unit, as short as it gets: "12.3", "12".
std::string SvgNumber(double value);

std::string SvgOpening(double width, double height, const std::string& description);
std::string SvgLine(SvgPoint from, SvgPoint to, const std::string& css_class);
// `anchor` is start, middle or end; `text` is plain.
std::string SvgText(SvgPoint at, const std::string& text, const std::string& css_class,
                    const std::string& anchor);

// The attributes by which the page's filters find a series.
std::string SvgFilterKeys(const Series& series);

}  // namespace tessera::planner
