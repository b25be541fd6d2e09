// Where values lie on an axis, and which of them are labelled.
#pragma once

#include <string>
#include <vector>

#include "planner/report/chart.h"

namespace tessera::planner {

class PlotAxis {
 public:
  // Covers all finite `values` (positive ones, of a logarithmic axis) with some room; a linear axis
  // starts at 0 or below, unless it need not.
  PlotAxis(const Axis& axis, const std::vector<double>& values);

  // 0 at the start of the axis, 1 at its end.
  double ShareOf(double value) const;
  // At most about nine round values: powers of 2 for counts on a logarithmic axis, else 1, 2, 5
  // times powers of 10 in the axis's unit.
  const std::vector<double>& ticks() const { return ticks_; }
  std::string TickText(double tick) const;  // "0.3", without the unit
  double low() const { return low_; }
  double high() const { return high_; }

 private:
  void MakeLogarithmic(const std::vector<double>& values);
  void MakeLinear(const std::vector<double>& values);

  Axis axis_;
  double low_ = 0;
  double high_ = 1;
  std::vector<double> ticks_;
};

// The values that the axes of a figure cover.
struct ChartReach {
  std::vector<double> x;  // of bars: their lengths, and the limit
  std::vector<double> y;
};
ChartReach ReachOf(const Chart& figure);

// False for a mark that a logarithmic axis cannot show, or that is not finite.
bool HasPlace(const Chart& figure, const Mark& mark);

// How long each bar is in all.
std::vector<double> BarLengths(const Chart& figure);

}  // namespace tessera::planner
