#include "planner/report/static_bars.h"

#include <algorithm>

#include "cost_model/base/check.h"
#include "planner/report/html_text.h"
#include "planner/report/plot_axis.h"
#include "planner/report/svg_text.h"

namespace tessera::planner {
namespace {

using base::Concat;

constexpr double kBarsWidth = 760;
constexpr double kBarsRight = 100;  // room for what is written behind the bars
constexpr double kBarsTop = 18;
constexpr double kBarsBottom = 46;
constexpr double kCharWidth = 6.6;  // of the labels' font, about
constexpr double kMinLeft = 60;
constexpr double kMaxLeft = 260;

struct BarFrame {
  double X(double value) const {
    return left + (kBarsWidth - left - kBarsRight) * along.ShareOf(value);
  }
  double Top(double bar) const { return kBarsTop + bar * pitch; }

  PlotAxis along;
  double left = 0;
  double pitch = 0;  // from bar to bar
  double height = 0;
};

BarFrame FrameOf(const Chart& figure) {
  size_t longest = 0;
  for (const std::string& name : figure.bars) longest = std::max(longest, name.size());
  const double left =
      std::clamp(kCharWidth * static_cast<double>(longest) + 16, kMinLeft, kMaxLeft);
  const double pitch = figure.bars.size() > 16 ? 17 : 27;
  return {PlotAxis(figure.x, ReachOf(figure).x), left, pitch, pitch - 6};
}

std::string AxisSvg(const Chart& figure, const BarFrame& frame) {
  const double bottom = frame.Top(static_cast<double>(figure.bars.size()));
  std::string svg;
  for (const double tick : frame.along.ticks()) {
    const double x = frame.X(tick);
    svg += SvgLine({x, kBarsTop - 4}, {x, bottom}, "grid");
    svg += SvgText({x, bottom + 15}, frame.along.TickText(tick), "tick", "middle");
  }
  svg += SvgText({(frame.left + kBarsWidth - kBarsRight) / 2, bottom + 36}, figure.x.label, "label",
                 "middle");
  return svg;
}

std::string NamesSvg(const Chart& figure, const BarFrame& frame) {
  std::string svg;
  const std::vector<double> lengths = BarLengths(figure);
  for (size_t i = 0; i < figure.bars.size(); ++i) {
    const double y = frame.Top(static_cast<double>(i)) + frame.height / 2 + 4;
    svg += SvgText({frame.left - 8, y}, figure.bars[i], "tick", "end");
    if (i < figure.bar_ends.size()) {
      svg += SvgText({frame.X(lengths[i]) + 6, y}, figure.bar_ends[i], "tick", "start");
    }
  }
  return svg;
}

std::string PartsSvg(const Chart& figure, const BarFrame& frame) {
  std::vector<double> begins(figure.bars.size(), 0);
  std::string svg;
  for (const Series& series : figure.series) {
    svg += Concat("<g class=\"part\" style=\"--color:var(--", series.color, ")\">");
    for (const Mark& mark : series.marks) {
      double& begin = begins[static_cast<size_t>(mark.x)];
      const double x = frame.X(begin);
      begin += mark.y;
      svg +=
          Concat("<rect x=\"", SvgNumber(x), "\" y=\"", SvgNumber(frame.Top(mark.x)), "\" width=\"",
                 SvgNumber(frame.X(begin) - x), "\" height=\"", SvgNumber(frame.height),
                 "\"><title>", EscapeHtml(mark.text), "</title></rect>");
    }
    svg += "</g>\n";
  }
  return svg;
}

}  // namespace

std::string StaticBars(const Chart& figure) {
  const BarFrame frame = FrameOf(figure);
  const double bottom = frame.Top(static_cast<double>(figure.bars.size()));
  std::string svg = SvgOpening(kBarsWidth, bottom + kBarsBottom, figure.description) +
                    AxisSvg(figure, frame) + PartsSvg(figure, frame);
  if (figure.limit > 0) {
    const double x = frame.X(figure.limit);
    svg += SvgLine({x, kBarsTop - 6}, {x, bottom}, "limit");
    svg += SvgText({x, kBarsTop - 8}, figure.limit_text, "tick", "middle");
  }
  return svg + NamesSvg(figure, frame) + "</svg>\n";
}

}  // namespace tessera::planner
