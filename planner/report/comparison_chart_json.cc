#include <cmath>

#include "cost_model/base/check.h"
#include "planner/report/step_charts_json.h"

namespace tessera::planner {
namespace {

using base::Concat;

// "forward_s" -> its name and colour, by the terms of a step.
StepTerm LookUp(const std::string& key) {
  Json probe = {{"time", {{key, 1.0}}}};
  const std::vector<StepTerm> terms = StepTermsOf({&probe});
  if (!terms.empty()) return terms.front();
  return {"", key, "term-other"};
}

}  // namespace

std::optional<Chart> ComparisonChart(const WhatIfView& view) {
  const std::vector<const Json*> terms = ListAt(view.document(), "comparison/terms");
  if (terms.empty()) return std::nullopt;
  Chart figure{.id = "figure-comparison", .kind = ChartKind::kBars};
  double sums[2] = {0, 0};
  constexpr const char* kSides[2] = {"a", "b"};
  for (const Json* term : terms) {
    for (const int side : {0, 1}) sums[side] += NumberAt(*term, kSides[side]).value_or(0);
  }
  const Scale scale = ScaleFor(Quantity::kSeconds, std::max(sums[0], sums[1]));
  figure.x = {.label = Concat("time of a step [", scale.unit, "]"),
              .quantity = Quantity::kSeconds,
              .scale = scale};
  for (const int side : {0, 1}) {
    const std::string name = TextAt(view.document(), Concat("comparison/", kSides[side], "/name"));
    figure.bars.push_back(name.empty() ? kSides[side] : name);
    figure.bar_ends.push_back(FormatQuantity(Quantity::kSeconds, sums[side]));
  }
  for (const Json* term : terms) {
    const StepTerm known = LookUp(TextAt(*term, "term"));
    Series series{.name = known.name, .color = known.color};
    for (const int side : {0, 1}) {
      const auto seconds = NumberAt(*term, kSides[side]);
      if (!seconds || *seconds <= 0) continue;
      series.marks.push_back({.x = static_cast<double>(side),
                              .y = *seconds,
                              .text = Concat(figure.bars[side], ": ", known.name, " ",
                                             FormatQuantity(Quantity::kSeconds, *seconds))});
    }
    if (!series.marks.empty()) figure.series.push_back(std::move(series));
  }
  figure.title = "Side by side.";
  figure.caption = TextAt(view.document(), "comparison/sentence");
  figure.description = "Stacked bar chart of two steps by term. The numbers are in the table.";
  figure.table = {
      .caption = "Term by term",
      .columns = {{.title = "term"},
                  {.title = figure.bars[0] + " [" + scale.unit + "]", .is_number = true},
                  {.title = figure.bars[1] + " [" + scale.unit + "]", .is_number = true},
                  {.title = "difference [" + scale.unit + "]", .is_number = true}},
      .has_row_headers = true};
  for (const Json* term : terms) {
    figure.table.rows.push_back(
        {{TextCell(LookUp(TextAt(*term, "term")).name), NumberCell(*term, "a", scale),
          NumberCell(*term, "b", scale), NumberCell(*term, "difference", scale)},
         {}});
  }
  return figure;
}

}  // namespace tessera::planner
