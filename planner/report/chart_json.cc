#include "planner/report/chart_json.h"

#include <nlohmann/json.hpp>

#include "planner/report/plot_axis.h"

namespace tessera::planner {
namespace {

using nlohmann::ordered_json;

const char* NameOf(ChartKind kind) {
  switch (kind) {
    case ChartKind::kLines:
      return "lines";
    case ChartKind::kScatter:
      return "scatter";
    case ChartKind::kBars:
      return "bars";
  }
  return "";
}

ordered_json AxisToJson(const Axis& axis, const std::vector<double>& values) {
  ordered_json ticks = ordered_json::array();
  const PlotAxis plot(axis, values);
  for (const double tick : plot.ticks()) {
    ticks.push_back({{"value", tick}, {"text", plot.TickText(tick)}});
  }
  return {{"label", axis.label},
          {"log", axis.is_log},
          {"low", plot.low()},
          {"high", plot.high()},
          {"ticks", std::move(ticks)}};
}

ordered_json SeriesToJson(const Series& series) {
  ordered_json marks = ordered_json::array();
  for (const Mark& mark : series.marks) {
    marks.push_back({{"x", mark.x}, {"y", mark.y}, {"point", mark.point}, {"text", mark.text}});
    if (!mark.label.empty()) marks.back()["label"] = mark.label;
  }
  return {{"name", series.name},      {"color", series.color},  {"group", series.group},
          {"style", series.style},    {"line", series.is_line}, {"end_label", series.end_label},
          {"marks", std::move(marks)}};
}

}  // namespace

ordered_json ChartToJson(const Chart& figure) {
  ordered_json series = ordered_json::array();
  for (const Series& one : figure.series) series.push_back(SeriesToJson(one));
  const ChartReach reach = ReachOf(figure);
  return {{"id", figure.id},
          {"kind", NameOf(figure.kind)},
          {"x", AxisToJson(figure.x, reach.x)},
          {"y", AxisToJson(figure.y, reach.y)},
          {"bars", figure.bars},
          {"bar_ends", figure.bar_ends},
          {"limit", figure.limit},
          {"limit_text", figure.limit_text},
          {"answer", figure.answer},
          {"series", std::move(series)}};
}

}  // namespace tessera::planner
