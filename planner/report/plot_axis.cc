#include "planner/report/plot_axis.h"

#include <algorithm>
#include <cmath>

namespace tessera::planner {
namespace {

constexpr size_t kMaxTicks = 9;
constexpr double kMinLinearSteps = 6;  // but for rounding the step up
constexpr double kRoom = 1.15;         // factor beyond the outermost values of a logarithmic axis

// Drops ticks evenly until few enough are left.
std::vector<double> Thin(std::vector<double> ticks) {
  while (ticks.size() > kMaxTicks) {
    std::vector<double> kept;
    for (size_t i = 0; i < ticks.size(); i += 2) kept.push_back(ticks[i]);
    ticks = std::move(kept);
  }
  return ticks;
}

// The round values between two positive numbers, finer where there would be too few.
std::vector<double> LogarithmicTicks(double low, double high, bool is_count) {
  std::vector<double> ticks;
  if (is_count) {
    for (double tick = 1; tick <= high; tick *= 2) {
      if (tick >= low) ticks.push_back(tick);
    }
    return Thin(ticks);
  }
  for (const std::vector<double>& steps :
       {std::vector<double>{1}, {1, 3}, {1, 2, 5}, {1, 1.5, 2, 3, 4, 5, 6, 8}}) {
    ticks.clear();
    for (int power = static_cast<int>(std::floor(std::log10(low))); std::pow(10, power) <= high;
         ++power) {
      for (const double step : steps) {
        const double tick = step * std::pow(10, power);
        if (tick >= low && tick <= high) ticks.push_back(tick);
      }
    }
    if (ticks.size() >= 4) break;
  }
  return Thin(ticks);
}

}  // namespace

PlotAxis::PlotAxis(const Axis& axis, const std::vector<double>& values) : axis_(axis) {
  std::vector<double> usable;
  for (const double value : values) {
    if (std::isfinite(value) && (value > 0 || !axis.is_log)) usable.push_back(value);
  }
  if (usable.empty()) usable.push_back(1);
  if (axis.is_log) {
    MakeLogarithmic(usable);
  } else {
    MakeLinear(usable);
  }
}

void PlotAxis::MakeLogarithmic(const std::vector<double>& values) {
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  low_ = *low / kRoom;
  high_ = *high * kRoom;
  const double unit = axis_.scale.divisor;
  ticks_ = LogarithmicTicks(low_ / unit, high_ / unit, axis_.quantity == Quantity::kCount);
  for (double& tick : ticks_) tick *= unit;
}

void PlotAxis::MakeLinear(const std::vector<double>& values) {
  const double unit = axis_.scale.divisor;
  const auto [low, high] = std::minmax_element(values.begin(), values.end());
  const double first = axis_.starts_at_zero ? std::min(0.0, *low / unit) : *low / unit;
  const double last = std::max(*high / unit, first + 1e-9);
  const double rough = (last - first) / kMinLinearSteps;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  double step = power;
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    step = factor * power;
    if (step >= rough) break;
  }
  const double end = std::ceil(last / step - 1e-9) * step;
  low_ = std::floor(first / step) * step * unit;
  high_ = end * unit;
  for (double tick = low_ / unit; tick <= end + step / 2; tick += step) {
    ticks_.push_back(tick * unit);
  }
}

double PlotAxis::ShareOf(double value) const {
  if (axis_.is_log) return std::log(value / low_) / std::log(high_ / low_);
  return (value - low_) / (high_ - low_);
}

std::string PlotAxis::TickText(double tick) const {
  std::string text = FormatScaled(tick, axis_.scale);
  if (text.find('.') == std::string::npos) return text;
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

bool HasPlace(const Chart& figure, const Mark& mark) {
  if (!std::isfinite(mark.x) || !std::isfinite(mark.y)) return false;
  return (!figure.x.is_log || mark.x > 0) && (!figure.y.is_log || mark.y > 0);
}

std::vector<double> BarLengths(const Chart& figure) {
  std::vector<double> lengths(figure.bars.size(), 0);
  for (const Series& series : figure.series) {
    for (const Mark& mark : series.marks) lengths.at(static_cast<size_t>(mark.x)) += mark.y;
  }
  return lengths;
}

ChartReach ReachOf(const Chart& figure) {
  ChartReach reach;
  if (figure.kind == ChartKind::kBars) {
    reach.x = BarLengths(figure);
    if (figure.limit > 0) reach.x.push_back(figure.limit);
    return reach;
  }
  for (const Series& series : figure.series) {
    for (const Mark& mark : series.marks) {
      if (!HasPlace(figure, mark)) continue;
      reach.x.push_back(mark.x);
      reach.y.push_back(mark.y);
    }
  }
  return reach;
}

}  // namespace tessera::planner
