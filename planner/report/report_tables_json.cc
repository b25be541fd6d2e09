#include "planner/report/report_tables_json.h"

#include <cmath>

#include "cost_model/base/check.h"

namespace tessera::planner {
namespace {

struct ListColumn {
  const char* title;
  const char* key;
  bool is_number = false;
  Quantity quantity = Quantity::kPlain;
};

// A row for each element of the list at `path`. Columns without any entry are left out; numbers of
// a column share a scale.
Table TableOfList(const Json& document, const std::string& path, const std::string& caption,
                  const std::vector<ListColumn>& columns) {
  Table table{.caption = caption};
  const std::vector<const Json*> list = ListAt(document, path);
  table.rows.resize(list.size());
  for (const ListColumn& column : columns) {
    double largest = 0;
    bool is_used = false;
    for (const Json* entry : list) {
      is_used = is_used || Find(*entry, column.key) != nullptr;
      largest = std::max(largest, std::abs(NumberAt(*entry, column.key).value_or(0)));
    }
    if (!is_used) continue;
    const Scale scale = ScaleFor(column.quantity, largest);
    std::string title = column.title;
    if (!scale.unit.empty()) title += " [" + scale.unit + "]";
    table.columns.push_back({.title = title, .is_number = column.is_number});
    for (size_t i = 0; i < list.size(); ++i) {
      const std::string text = TextAt(*list[i], column.key);
      table.rows[i].cells.push_back(text.empty() ? NumberCell(*list[i], column.key, scale)
                                                 : TextCell(text));
    }
  }
  return table;
}

// What a unit counts, however it is written; kPlain where it needs no other form.
Quantity QuantityOf(const std::string& unit) {
  if (unit == "bytes" || unit == "B") return Quantity::kBytes;
  if (unit == "bytes/s" || unit == "B/s") return Quantity::kBytesPerSecond;
  if (unit == "FLOP/s" || unit == "FLOPs/s" || unit == "flops/s") return Quantity::kFlopsPerSecond;
  if (unit == "s") return Quantity::kSeconds;
  if (unit == "W") return Quantity::kWatts;
  return Quantity::kPlain;
}

// The value in a unit that people use, and that unit; lists as they are.
std::pair<Cell, Cell> ValueAndUnit(const Json& assumption) {
  const std::string unit = TextAt(assumption, "unit");
  const Json* value = Find(assumption, "value");
  if (value == nullptr) return {MissingCell(), TextCell(unit)};
  if (value->is_string()) return {TextCell(value->get<std::string>()), TextCell(unit)};
  if (!value->is_number()) return {TextCell(value->dump()), TextCell(unit)};
  const Scale scale = ScaleFor(QuantityOf(unit), value->get<double>());
  return {NumberCell(assumption, "value", scale), TextCell(scale.unit.empty() ? unit : scale.unit)};
}

}  // namespace

Table MarginsTable(const WhatIfView& view) {
  Table table =
      TableOfList(view.document(), "margins", "What a change would bring",
                  {{"change", "change"},
                   {"throughput gained", "tokens_per_s_gain_share", true, Quantity::kShare},
                   {"time saved", "days_saved", true, Quantity::kDays},
                   {"cost saved", "cost_saved_usd", true, Quantity::kDollars},
                   {"best layout then", "layout_text"}});
  const std::vector<const Json*> margins = ListAt(view.document(), "margins");
  table.columns.push_back({.title = "at the point"});
  for (size_t i = 0; i < margins.size(); ++i) {
    const Json* point = view.PointOf(std::llround(NumberAt(*margins[i], "point").value_or(-1)));
    table.rows[i].cells.push_back(point == nullptr ? MissingCell()
                                                   : TextCell(view.TitleOf(*point)));
  }
  return table;
}

Table CrossoversTable(const WhatIfView& view) {
  Table table = TableOfList(view.document(), "crossovers", "Where the best layout changes",
                            {{"model", "model"},
                             {"cluster", "cluster"},
                             {"batch", "global_batch_size", true, Quantity::kCount},
                             {"sequence", "sequence_length", true, Quantity::kCount},
                             {"along", "axis"},
                             {"best before", "layout_before"},
                             {"best after", "layout_after"}});
  const std::vector<const Json*> crossovers = ListAt(view.document(), "crossovers");
  for (const char* key : {"from", "to"}) {
    table.columns.push_back({.title = key, .is_number = true});
    for (size_t i = 0; i < crossovers.size(); ++i) {
      // Axes differ from row to row, and so do their units.
      Cell cell = NumberCell(*crossovers[i], key, {});
      if (!cell.is_missing) {
        cell.text = FormatQuantity(QuantityOf(TextAt(*crossovers[i], "unit")),
                                   *NumberAt(*crossovers[i], key));
      }
      table.rows[i].cells.push_back(cell);
    }
  }
  return table;
}

Table ClustersTable(const WhatIfView& view) {
  Table table = TableOfList(
      view.document(), "clusters", "The clusters",
      {{"name", "name"},
       {"device", "device"},
       {"devices a node", "devices_per_node", true, Quantity::kCount},
       {"memory", "memory_bytes", true, Quantity::kBytes},
       {"dense peak", "peak_flops_per_s", true, Quantity::kFlopsPerSecond},
       {"link in the node", "intra_node_bandwidth_bytes_per_s", true, Quantity::kBytesPerSecond},
       {"link between nodes", "inter_node_bandwidth_bytes_per_s", true, Quantity::kBytesPerSecond},
       {"links a node", "nics_per_node", true, Quantity::kCount},
       {"power", "power_w", true, Quantity::kWatts},
       {"price of an hour", "price_per_hour", true, Quantity::kDollars}});
  table.has_row_headers = true;
  return table;
}

Table AssumptionsTable(const WhatIfView& view) {
  Table table{.id = "assumptions",
              .caption = "Every assumption",
              .columns = {{.title = "of"},
                          {.title = "name"},
                          {.title = "value", .is_number = true},
                          {.title = "unit"},
                          {.title = "tag"},
                          {.title = "source"}}};
  for (const Json* entry : ListAt(view.document(), "assumptions")) {
    const std::string tag = TextAt(*entry, "tag");
    const std::string cluster = TextAt(*entry, "cluster");
    const auto [value, unit] = ValueAndUnit(*entry);
    table.rows.push_back(
        {{TextCell(cluster.empty() ? "the run" : cluster), TextCell(TextAt(*entry, "name")), value,
          unit, TextCell(tag), TextCell(TextAt(*entry, "source"))},
         {{"data-tag", tag}}});
  }
  return table;
}

Table FormulasTable(const WhatIfView& view) {
  Table table = TableOfList(view.document(), "formulas", "The formulas",
                            {{"what", "name"}, {"formula", "formula"}, {"source", "source"}});
  table.id = "formulas";
  table.is_sortable = false;
  table.has_row_headers = true;
  return table;
}

}  // namespace tessera::planner
