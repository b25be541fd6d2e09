#include "planner/report/sweep_charts_json.h"

#include <algorithm>
#include <map>
#include <set>

#include "cost_model/base/check.h"

namespace tessera::planner {
namespace {

using base::Concat;

constexpr int kNumSeriesColors = 8;  // series-0 ... of page.css

std::string ColorOf(int group) { return Concat("series-", group % kNumSeriesColors); }

Axis MakeAxis(const std::string& name, Quantity quantity, double largest, bool is_log) {
  const Scale scale = ScaleFor(quantity, largest);
  return {.label = scale.unit.empty() ? name : Concat(name, " [", scale.unit, "]"),
          .quantity = quantity,
          .scale = scale,
          .is_log = is_log};
}

Axis SweepAxis(const WhatIfView& view) {
  const std::string& key = view.sweep_key();
  const std::string name = key == "devices"             ? "devices"
                           : key == "global_batch_size" ? "global batch size [sequences]"
                                                        : "sequence length [tokens]";
  return MakeAxis(name, Quantity::kCount, 1, true);
}

Series SeriesOf(const WhatIfView& view, const Json& point) {
  const SeriesKeys& keys = view.keys();
  const int group = view.GroupOf(point);
  const int style = view.StyleOf(point);
  const std::string& name = keys.groups[group];
  const std::string& style_name = keys.styles[style];
  return {.name = style_name.empty() ? name : Concat(name, ", ", style_name),
          .color = ColorOf(group),
          .group = group,
          .style = style,
          .end_label = name};
}

// One series for each group and style, marks in the order of x.
std::vector<Series> SweepSeries(const WhatIfView& view, const std::string& key, Quantity quantity) {
  std::map<std::pair<int, int>, Series> by_keys;
  for (const Json* point : view.FeasiblePoints()) {
    const auto y = NumberAt(*point, key);
    const auto x = NumberAt(*point, view.sweep_key());
    if (!x || !y) continue;
    Series& series =
        by_keys.try_emplace({view.GroupOf(*point), view.StyleOf(*point)}, SeriesOf(view, *point))
            .first->second;
    series.marks.push_back({.x = *x,
                            .y = *y,
                            .point = IdOf(*point),
                            .text = Concat(view.TitleOf(*point), ": ", FormatQuantity(quantity, *y),
                                           "; ", TextAt(*point, "layout_text"))});
  }
  std::vector<Series> all;
  for (auto& [keys, series] : by_keys) {
    std::stable_sort(series.marks.begin(), series.marks.end(),
                     [](const Mark& a, const Mark& b) { return a.x < b.x; });
    all.push_back(std::move(series));
  }
  return all;
}

// A row for each x, a column for each series.
Table TableOfLines(const Chart& figure) {
  Table table{.caption = figure.title, .columns = {{.title = figure.x.label, .is_number = true}}};
  table.has_row_headers = true;
  std::set<double> xs;
  for (const Series& series : figure.series) {
    table.columns.push_back(
        {.title = Concat(series.name,
                         figure.y.scale.unit.empty() ? "" : " [" + figure.y.scale.unit + "]"),
         .is_number = true,
         .key = figure.key});
    for (const Mark& mark : series.marks) xs.insert(mark.x);
  }
  for (const double x : xs) {
    Row row{{{.text = FormatScaled(x, figure.x.scale), .value = Json(x).dump()}}, {}};
    for (const Series& series : figure.series) {
      const auto mark = std::find_if(series.marks.begin(), series.marks.end(),
                                     [x](const Mark& candidate) { return candidate.x == x; });
      row.cells.push_back(mark == series.marks.end()
                              ? MissingCell()
                              : Cell{.text = FormatScaled(mark->y, figure.y.scale),
                                     .value = Json(mark->y).dump(),
                                     .point = mark->point});
    }
    table.rows.push_back(std::move(row));
  }
  return table;
}

Chart LinesOverSweep(const WhatIfView& view, const std::string& key, const std::string& name,
                     Quantity quantity, bool is_log) {
  Chart figure{.id = "figure-" + key.substr(key.rfind('/') + 1), .key = key};
  figure.x = SweepAxis(view);
  figure.y = MakeAxis(name, quantity, view.LargestAt(key), is_log);
  figure.series = SweepSeries(view, key, quantity);
  figure.answer = view.answer();
  figure.answer_name = view.answer_name();
  return figure;
}

void Describe(Chart& figure, const std::string& title, const std::string& caption) {
  figure.title = title;
  figure.caption = caption;
  figure.description = Concat("Line chart: ", title, " ", figure.series.size(),
                              figure.series.size() == 1 ? " line" : " lines",
                              ". The numbers are in the table below it.");
  figure.table = TableOfLines(figure);
}

Chart Throughput(const WhatIfView& view) {
  Chart figure =
      LinesOverSweep(view, "tokens_per_s", "tokens per second", Quantity::kTokensPerSecond, true);
  Describe(
      figure, "Throughput.",
      "Each mark is the fastest layout that a full search found for its number of devices. Both "
      "axes are logarithmic: twice the devices at twice the rate is a straight line upwards.");
  return figure;
}

Chart Mfu(const WhatIfView& view) {
  Chart figure = LinesOverSweep(view, "mfu", "MFU", Quantity::kShare, false);
  Describe(figure, "Model FLOPs utilisation.",
           "How much of the devices' dense peak goes into the model's own arithmetic. It falls "
           "where a batch is spread over too many devices.");
  return figure;
}

Chart Goodput(const WhatIfView& view) {
  Chart figure = LinesOverSweep(view, "run/goodput_share", "goodput", Quantity::kShare, false);
  figure.y.starts_at_zero = false;
  Describe(figure, "Goodput under failures.",
           "The share of a run's time that is left for training after checkpoints, restarts and "
           "work that is lost and done again.");
  return figure;
}

Mark FrontierMark(const WhatIfView& view, const Json& point, Quantity cost_quantity) {
  const double days = NumberAt(point, "run/days").value_or(0);
  const double cost = NumberAt(point, view.cost_key()).value_or(0);
  return {.x = days,
          .y = cost,
          .point = IdOf(point),
          .text = Concat(view.TitleOf(point), ": ", FormatQuantity(Quantity::kDays, days), ", ",
                         FormatQuantity(cost_quantity, cost), "; ", TextAt(point, "layout_text"))};
}

std::vector<Series> FrontierSeries(const WhatIfView& view, Quantity cost_quantity) {
  std::map<int, Series> by_group;
  for (const Json* point : view.FeasiblePoints()) {
    if (!NumberAt(*point, "run/days") || !NumberAt(*point, view.cost_key())) continue;
    const int group = view.GroupOf(*point);
    Series& series = by_group
                         .try_emplace(group, Series{.name = view.keys().groups[group],
                                                    .color = ColorOf(group),
                                                    .group = group,
                                                    .is_line = false})
                         .first->second;
    series.marks.push_back(FrontierMark(view, *point, cost_quantity));
  }
  std::vector<Series> all;
  Series frontier{.name = "frontier", .color = "ink", .end_label = "frontier"};
  for (const Json* id : ListAt(view.document(), "frontier")) {
    const Json* point = view.PointOf(id->get<int64_t>());
    if (point == nullptr) continue;
    frontier.marks.push_back(FrontierMark(view, *point, cost_quantity));
    frontier.marks.back().label =
        FormatQuantity(Quantity::kCount, NumberAt(*point, "devices").value_or(0));
  }
  std::sort(frontier.marks.begin(), frontier.marks.end(),
            [](const Mark& a, const Mark& b) { return a.x < b.x; });
  for (auto& [group, series] : by_group) all.push_back(std::move(series));
  if (!frontier.marks.empty()) all.push_back(std::move(frontier));
  return all;
}

Table FrontierTable(const WhatIfView& view, const Chart& figure) {
  Table table{.caption = "The frontier of days and cost",
              .columns = {{.title = "point"},
                          {.title = figure.x.label, .is_number = true, .key = "run/days"},
                          {.title = figure.y.label, .is_number = true, .key = view.cost_key()},
                          {.title = "layout"}},
              .has_row_headers = true};
  std::vector<const Json*> points;
  for (const Json* id : ListAt(view.document(), "frontier")) {
    const Json* point = view.PointOf(id->get<int64_t>());
    if (point != nullptr) points.push_back(point);
  }
  if (points.empty()) points = view.FeasiblePoints();
  for (const Json* point : points) {
    table.rows.push_back(
        {{TextCell(view.TitleOf(*point)), NumberCell(*point, "run/days", figure.x.scale),
          NumberCell(*point, view.cost_key(), figure.y.scale),
          TextCell(TextAt(*point, "layout_text"))},
         {{"data-point", std::to_string(IdOf(*point))}}});
  }
  return table;
}

Chart DaysAgainstCost(const WhatIfView& view) {
  const bool has_price = view.cost_key() == "run/cost_usd";
  const Quantity quantity = has_price ? Quantity::kDollars : Quantity::kDeviceHours;
  Chart figure{.id = "figure-frontier", .key = view.cost_key(), .kind = ChartKind::kScatter};
  figure.x = MakeAxis("length of the run", Quantity::kDays, view.LargestAt("run/days"), true);
  figure.y = MakeAxis(has_price ? "cost" : "devices' time", quantity,
                      view.LargestAt(view.cost_key()), true);
  figure.series = FrontierSeries(view, quantity);
  figure.answer = view.answer();
  figure.answer_name = view.answer_name();
  figure.title = "Days against cost.";
  figure.caption =
      "Each mark is a point of the sweep. On the line, with the devices below it, no other point "
      "is "
      "both faster and cheaper; "
      "everything above it can be had for less, or sooner.";
  figure.description =
      "Scatter chart of days against cost with the frontier as a line. The "
      "frontier's numbers are in the table below it.";
  figure.table = FrontierTable(view, figure);
  return figure;
}

Series ScalingSeries(const WhatIfView& view, const Json& scaling) {
  const std::string cluster = TextAt(scaling, "cluster");
  const std::string kind = TextAt(scaling, "kind");
  Series series{.name = Concat(cluster, ", ", kind), .end_label = cluster};
  if (const auto batch = NumberAt(scaling, "global_batch_size")) {
    series.name += ", batch " + FormatQuantity(Quantity::kCount, *batch);
  }
  for (const Json* entry : ListAt(scaling, "points")) {
    const auto devices = NumberAt(*entry, "devices");
    const auto share = NumberAt(*entry, "efficiency_share");
    if (!devices || !share) continue;
    const auto id = static_cast<int64_t>(NumberAt(*entry, "point").value_or(-1));
    if (const Json* point = view.PointOf(id); point != nullptr && series.group < 0) {
      series.group = view.GroupOf(*point);
      if (kind == "strong") series.style = view.StyleOf(*point);
    }
    series.marks.push_back(
        {.x = *devices,
         .y = *share,
         .point = id,
         .text = Concat(series.name, ", ", FormatQuantity(Quantity::kCount, *devices),
                        " devices: ", FormatQuantity(Quantity::kShare, *share))});
  }
  series.color = ColorOf(std::max(series.group, 0));
  return series;
}

Chart Scaling(const WhatIfView& view, const std::string& kind) {
  Chart figure{.id = "figure-scaling-" + kind};
  figure.x = MakeAxis("devices", Quantity::kCount, 1, true);
  figure.y = MakeAxis("efficiency", Quantity::kShare, 1, false);
  for (const Json* scaling : ListAt(view.document(), "scaling")) {
    if (TextAt(*scaling, "kind") != kind) continue;
    Series series = ScalingSeries(view, *scaling);
    if (!series.marks.empty()) figure.series.push_back(std::move(series));
  }
  std::stable_sort(figure.series.begin(), figure.series.end(),
                   [](const Series& a, const Series& b) { return a.group < b.group; });
  Describe(figure, kind == "strong" ? "Strong scaling." : "Weak scaling.",
           kind == "strong"
               ? "The same batch on more devices: throughput per device, as a share of that on the "
                 "fewest."
               : "The batch grows with the devices: throughput per device, as a share of that on "
                 "the fewest.");
  return figure;
}

}  // namespace

std::vector<Chart> SweepCharts(const WhatIfView& view) {
  std::vector<Chart> figures = {Throughput(view), Mfu(view)};
  if (view.LargestAt("run/days") > 0) figures.push_back(DaysAgainstCost(view));
  const bool has_failures = view.LargestAt("run/expected_failures") > 0;
  if (has_failures) figures.push_back(Goodput(view));
  figures.push_back(Scaling(view, "strong"));
  figures.push_back(Scaling(view, "weak"));
  std::erase_if(figures, [](const Chart& figure) { return figure.series.empty(); });
  return figures;
}

}  // namespace tessera::planner
