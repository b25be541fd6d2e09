#include <algorithm>

#include "planner/report/report_tables_json.h"

namespace tessera::planner {
namespace {

struct NumberColumn {
  const char* title;
  const char* key;
  Quantity quantity;
  bool is_minor = false;
};

constexpr NumberColumn kNumbers[] = {
    {"step", "step_time_s", Quantity::kSeconds},
    {"throughput", "tokens_per_s", Quantity::kTokensPerSecond},
    {"per device", "tokens_per_s_per_device", Quantity::kTokensPerSecond, true},
    {"model rate per device", "model_tflops_per_device", Quantity::kTflops, true},
    {"MFU", "mfu", Quantity::kShare},
    {"HFU", "hfu", Quantity::kShare, true},
    {"memory", "memory/peak_bytes", Quantity::kBytes},
    {"run", "run/days", Quantity::kDays},
    {"cost", "run/cost_usd", Quantity::kDollars},
    {"devices' time", "run/device_hours", Quantity::kDeviceHours, true},
    {"energy", "run/energy_kwh", Quantity::kKilowattHours},
    {"goodput", "run/goodput_share", Quantity::kShare},
    {"failures", "run/expected_failures", Quantity::kPlain, true},
    {"checkpoint every", "run/checkpoint_interval_s", Quantity::kSeconds, true},
};

struct TextColumn {
  const char* title;
  const char* key;
};

constexpr TextColumn kNames[] = {
    {"model", "model"}, {"cluster", "cluster"}, {"variant", "variant"}};

constexpr NumberColumn kCountColumns[] = {
    {"devices", "devices", Quantity::kCount},
    {"batch", "global_batch_size", Quantity::kCount},
    {"sequence", "sequence_length", Quantity::kCount},
};

bool Varies(const WhatIfView& view, const std::string& key) {
  const auto& points = view.points();
  return std::any_of(points.begin(), points.end(), [&](const Json* point) {
    const Json* one = Find(*point, key);
    const Json* other = Find(*points.front(), key);
    return (one == nullptr) != (other == nullptr) || (one != nullptr && *one != *other);
  });
}

Row AttributesOf(const WhatIfView& view, const Json& point) {
  return {{},
          {{"data-point", std::to_string(IdOf(point))},
           {"data-group", std::to_string(view.GroupOf(point))},
           {"data-style", std::to_string(view.StyleOf(point))}}};
}

}  // namespace

Table PointsTable(const WhatIfView& view) {
  Table table{.id = "points", .caption = "All points of the sweep", .has_row_headers = true};
  std::vector<Row> rows;
  for (const Json* point : view.points()) rows.push_back(AttributesOf(view, *point));
  for (const TextColumn& column : kNames) {
    if (column.key != std::string("cluster") && !Varies(view, column.key)) continue;
    table.columns.push_back({.title = column.title});
    for (size_t i = 0; i < rows.size(); ++i) {
      rows[i].cells.push_back(TextCell(TextAt(*view.points()[i], column.key)));
    }
  }
  const auto add_numbers = [&](const NumberColumn& column) {
    const Scale scale = ScaleFor(column.quantity, view.LargestAt(column.key));
    std::string title = column.title;
    if (!scale.unit.empty()) title += " [" + scale.unit + "]";
    table.columns.push_back(
        {.title = title, .is_number = true, .is_minor = column.is_minor, .key = column.key});
    for (size_t i = 0; i < rows.size(); ++i) {
      rows[i].cells.push_back(NumberCell(*view.points()[i], column.key, scale));
    }
  };
  for (const NumberColumn& column : kCountColumns) {
    if (column.key != std::string("sequence_length") || Varies(view, column.key)) {
      add_numbers(column);
    }
  }
  for (const NumberColumn& column : kNumbers) {
    if (view.LargestAt(column.key) > 0) add_numbers(column);
  }
  table.columns.push_back({.title = "layout, or why there is none"});
  for (size_t i = 0; i < rows.size(); ++i) {
    const Json& point = *view.points()[i];
    const bool is_feasible = IsTrueAt(point, "feasible");
    rows[i].cells.push_back(
        {.text = TextAt(point, is_feasible ? "layout_text" : "reason"), .is_long = !is_feasible});
  }
  table.rows = std::move(rows);
  return table;
}

}  // namespace tessera::planner
