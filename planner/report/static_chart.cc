#include "planner/report/static_chart.h"

#include <algorithm>
#include <map>

#include "cost_model/base/check.h"
#include "planner/report/html_text.h"
#include "planner/report/plot_axis.h"
#include "planner/report/static_bars.h"
#include "planner/report/svg_text.h"

namespace tessera::planner {
namespace {

using base::Concat;

constexpr double kWidth = 760;
constexpr double kHeight = 400;
constexpr double kLeft = 66;
constexpr double kRight = 120;  // room for the labels at the ends of lines
constexpr double kTop = 14;
constexpr double kBottom = 50;
constexpr double kPlotWidth = kWidth - kLeft - kRight;
constexpr double kPlotHeight = kHeight - kTop - kBottom;

struct Frame {
  Frame(const Chart& figure, const ChartReach& reach)
      : x(figure.x, reach.x), y(figure.y, reach.y) {}
  double X(double value) const { return kLeft + kPlotWidth * x.ShareOf(value); }
  double Y(double value) const { return kTop + kPlotHeight * (1 - y.ShareOf(value)); }

  PlotAxis x;
  PlotAxis y;
};

std::string GridSvg(const Chart& figure, const Frame& frame) {
  const double bottom = kTop + kPlotHeight;
  std::string svg;
  for (const double tick : frame.y.ticks()) {
    const double y = frame.Y(tick);
    svg += SvgLine({kLeft, y}, {kLeft + kPlotWidth, y}, "grid");
    svg += SvgText({kLeft - 8, y + 4}, frame.y.TickText(tick), "tick", "end");
  }
  for (const double tick : frame.x.ticks()) {
    const double x = frame.X(tick);
    svg += SvgLine({x, bottom}, {x, bottom + 5}, "axis");
    svg += SvgText({x, bottom + 19}, frame.x.TickText(tick), "tick", "middle");
  }
  svg += SvgLine({kLeft, bottom}, {kLeft + kPlotWidth, bottom}, "axis");
  svg += SvgText({kLeft + kPlotWidth / 2, kHeight - 8}, figure.x.label, "label", "middle");
  svg +=
      Concat("<text class=\"label\" text-anchor=\"middle\" transform=\"translate(16 ",
             kTop + kPlotHeight / 2, ") rotate(-90)\">", EscapeHtml(figure.y.label), "</text>\n");
  return svg;
}

std::string MarkSvg(const Chart& figure, const Frame& frame, const Mark& mark) {
  const SvgPoint at{frame.X(mark.x), frame.Y(mark.y)};
  std::string svg;
  if (mark.point >= 0 && mark.point == figure.answer) {
    svg += Concat("<circle class=\"ring\" cx=\"", SvgNumber(at.x), "\" cy=\"", SvgNumber(at.y),
                  "\" r=\"9\"/>");
  }
  if (!mark.label.empty()) svg += SvgText({at.x, at.y + 18}, mark.label, "tick", "middle");
  return Concat(svg, "<circle cx=\"", SvgNumber(at.x), "\" cy=\"", SvgNumber(at.y),
                "\" r=\"3.2\"><title>", EscapeHtml(mark.text), "</title></circle>\n");
}

std::string SeriesSvg(const Chart& figure, const Frame& frame, const Series& series) {
  std::string path, marks;
  for (const Mark& mark : series.marks) {
    if (!HasPlace(figure, mark)) continue;
    path += Concat(path.empty() ? "M" : "L", SvgNumber(frame.X(mark.x)), " ",
                   SvgNumber(frame.Y(mark.y)));
    marks += MarkSvg(figure, frame, mark);
  }
  std::string svg = Concat("<g class=\"series\" style=\"--color:var(--", series.color, ")\"",
                           SvgFilterKeys(series), ">");
  if (series.is_line && !path.empty()) {
    svg += Concat("<path class=\"line dash-", std::max(series.style, 0) % kNumDashes, "\" d=\"",
                  path, "\"/>");
  }
  return Concat(svg, "\n", marks, "</g>\n");
}

struct EndLabel {
  std::string text;
  std::string color;
  SvgPoint at;
};

// One for each text, at the end furthest right and of these at the highest; moved apart where two
// would overlap.
std::string EndLabelsSvg(const Chart& figure, const Frame& frame) {
  constexpr double kLineHeight = 15;
  std::map<std::string, EndLabel> by_text;
  for (const Series& series : figure.series) {
    if (series.end_label.empty() || series.marks.empty()) continue;
    const Mark& last = series.marks.back();
    if (!HasPlace(figure, last)) continue;
    const SvgPoint at{frame.X(last.x) + 9, frame.Y(last.y) + 4};
    const auto [entry, is_new] =
        by_text.try_emplace(series.end_label, EndLabel{series.end_label, series.color, at});
    const SvgPoint known = entry->second.at;
    const bool is_better = at.x > known.x || (at.x == known.x && at.y < known.y);
    if (!is_new && is_better) entry->second.at = at;
  }
  std::vector<EndLabel> labels;
  for (const auto& [text, label] : by_text) labels.push_back(label);
  std::sort(labels.begin(), labels.end(),
            [](const EndLabel& a, const EndLabel& b) { return a.at.y < b.at.y; });
  std::string svg;
  double free_y = 0;
  for (EndLabel& label : labels) {
    label.at.y = std::max(label.at.y, free_y);
    free_y = label.at.y + kLineHeight;
    svg += Concat("<g style=\"--color:var(--", label.color, ")\">",
                  SvgText(label.at, label.text, "end", "start"), "</g>");
  }
  return svg;
}

}  // namespace

std::string StaticChart(const Chart& figure) {
  if (figure.kind == ChartKind::kBars) return StaticBars(figure);
  const Frame frame(figure, ReachOf(figure));
  std::string svg = SvgOpening(kWidth, kHeight, figure.description) + GridSvg(figure, frame);
  for (const Series& series : figure.series) svg += SeriesSvg(figure, frame, series);
  return svg + EndLabelsSvg(figure, frame) + "</svg>\n";
}

}  // namespace tessera::planner
