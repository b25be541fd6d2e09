#include "planner/validation/validation_scatter.h"

#include <algorithm>
#include <cmath>

#include "cost_model/base/check.h"
#include "planner/report/html_text.h"
#include "planner/text_format.h"
#include "planner/validation/validation_text.h"

namespace tessera::planner {
namespace {

using base::Concat;

constexpr double kSize = 640;    // of the plotted square, in units of the picture
constexpr double kMargin = 70;   // for labels, left and below
constexpr double kPadding = 20;  // right and above
constexpr double kBand = 0.1;    // relative error that the band shows

// Whole powers of ten around all times.
class LogAxis {
 public:
  LogAxis(double low, double high)
      : first_(static_cast<int>(std::floor(std::log10(low)))),
        last_(std::max(first_ + 1, static_cast<int>(std::ceil(std::log10(high))))) {}

  int first() const { return first_; }
  int last() const { return last_; }
  double X(double value) const { return kMargin + kSize * Share(value); }
  double Y(double value) const { return kPadding + kSize * (1 - Share(value)); }

 private:
  double Share(double value) const { return (std::log10(value) - first_) / (last_ - first_); }

  int first_;
  int last_;
};

LogAxis AxisOf(const Validation& validation) {
  double low = INFINITY;
  double high = 0;
  for (const RowResult& row : validation.rows) {
    if (!StepTimeError(row)) continue;
    for (const double time : {row.predicted_step_time_s, *row.measurement.step_time_s}) {
      low = std::min(low, time);
      high = std::max(high, time);
    }
  }
  return {low, high};
}

// Of a power of ten: "10 ms", "100 s".
std::string TickText(int power) {
  const bool is_short = power < 0;
  return Concat(FormatFixed(std::pow(10, is_short ? power + 3 : power),
                            is_short && power < -3 ? -power - 3 : 0),
                is_short ? " ms" : " s");
}

// A line of slope 1 that predicts `factor` times what was measured, within the square.
std::string Diagonal(const LogAxis& axis, double factor, const char* style) {
  const double low = std::pow(10, axis.first());
  const double high = std::pow(10, axis.last());
  const double begin = std::max(low, low / factor);
  const double end = std::min(high, high / factor);
  return Concat("<line x1='", axis.X(begin), "' y1='", axis.Y(begin * factor), "' x2='",
                axis.X(end), "' y2='", axis.Y(end * factor), "' ", style, "/>\n");
}

std::string GridText(const LogAxis& axis) {
  std::string svg;
  const double left = kMargin;
  const double bottom = kPadding + kSize;
  for (int power = axis.first(); power <= axis.last(); ++power) {
    const double value = std::pow(10, power);
    const std::string label = TickText(power);
    svg += Concat("<line x1='", axis.X(value), "' y1='", kPadding, "' x2='", axis.X(value),
                  "' y2='", bottom, "' class='grid'/>\n<line x1='", left, "' y1='", axis.Y(value),
                  "' x2='", left + kSize, "' y2='", axis.Y(value), "' class='grid'/>\n",
                  "<text x='", axis.X(value), "' y='", bottom + 18, "' text-anchor='middle'>",
                  label, "</text>\n<text x='", left - 8, "' y='", axis.Y(value) + 4,
                  "' text-anchor='end'>", label, "</text>\n");
  }
  svg += Concat("<text x='", left + kSize / 2, "' y='", bottom + 42,
                "' text-anchor='middle'>measured step time</text>\n<text transform='translate(14 ",
                kPadding + kSize / 2,
                ") rotate(-90)' text-anchor='middle'>predicted step time</text>\n");
  return svg;
}

std::string DotText(const LogAxis& axis, const std::string& color, const RowResult& row) {
  const double measured_s = *row.measurement.step_time_s;
  return Concat("<circle cx='", FormatFixed(axis.X(measured_s), 1), "' cy='",
                FormatFixed(axis.Y(row.predicted_step_time_s), 1), "' r='3' fill='", color,
                "'><title>", EscapeHtml(row.measurement.id), "\n", FormatSeconds(measured_s),
                " measured, ", FormatSeconds(row.predicted_step_time_s), " predicted, ",
                FormatSignedPercent(*StepTimeError(row)), "</title></circle>\n");
}

}  // namespace

std::string SourceColor(const Validation& validation, const std::string& source) {
  size_t index = 0;
  while (index < validation.sources.size() && validation.sources[index].name != source) ++index;
  // Neighbouring sources get hues far apart: turns by the golden angle.
  const double hue = std::fmod(static_cast<double>(index) * 137.508, 360);
  return Concat("hsl(", FormatFixed(hue, 0), " 65% 50%)");
}

std::string StepTimeScatter(const Validation& validation) {
  if (validation.total.step_time.num_rows == 0) return "";
  const LogAxis axis = AxisOf(validation);
  std::string svg = Concat("<svg class='chart scatter' viewBox='0 0 ", kMargin + kSize + kPadding,
                           " ", kPadding + kSize + kMargin,
                           "' role='img' aria-label='Predicted against measured step times'>\n");
  svg += GridText(axis);
  svg += Diagonal(axis, 1 + kBand, "class='band'");
  svg += Diagonal(axis, 1 - kBand, "class='band'");
  svg += Diagonal(axis, 1, "class='diagonal'");
  for (const RowResult& row : validation.rows) {
    if (!StepTimeError(row)) continue;
    svg += DotText(axis, SourceColor(validation, row.measurement.source), row);
  }
  return svg + "</svg>\n";
}

}  // namespace tessera::planner
