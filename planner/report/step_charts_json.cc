#include "planner/report/step_charts_json.h"

#include <algorithm>
#include <cmath>

#include "cost_model/base/check.h"
#include "planner/text_format.h"

namespace tessera::planner {
namespace {

using base::Concat;

constexpr size_t kMaxBars = 10;
constexpr int kNumPartColors = 10;  // part-0 ... of page.css

struct NamedTerm {
  const char* key;
  const char* name;
  const char* color;
};

// By the keys of a step report and of its split of computing.
constexpr NamedTerm kNamedTerms[] = {
    {"compute_s", "computing", "term-forward"},
    {"forward_s", "forward", "term-forward"},
    {"backward_s", "backward", "term-backward"},
    {"recompute_s", "recomputation", "term-recompute"},
    {"tp_comm_s", "tensor parallel communication", "term-tp"},
    {"cp_comm_s", "context parallel communication", "term-cp"},
    {"ep_comm_s", "expert parallel communication", "term-ep"},
    {"pp_comm_s", "pipeline transfers", "term-pp"},
    {"dp_comm_s", "data parallel communication", "term-dp"},
    {"bubble_s", "pipeline bubble", "term-bubble"},
    {"optimizer_s", "optimizer", "term-optimizer"},
    {"other_s", "other", "term-other"},
    {"straggler_s", "waiting for the slowest device", "term-straggler"},
};

bool IsNonZeroSomewhere(const std::vector<const Json*>& points, const std::string& path) {
  return std::any_of(points.begin(), points.end(),
                     [&](const Json* point) { return NumberAt(*point, path).value_or(0) != 0; });
}

Cell SecondsCell(const Json& point, const std::string& path) {
  Cell cell = NumberCell(point, path, {});
  if (cell.is_missing) return cell;
  cell.text = FormatQuantity(Quantity::kSeconds, *NumberAt(point, path));
  return cell;
}

Table StepTimeTable(const WhatIfView& view, const std::vector<const Json*>& points,
                    const std::vector<StepTerm>& terms) {
  Table table{
      .caption = "Where the time of a step goes",
      .columns = {{.title = "point"}, {.title = "step", .is_number = true, .key = "step_time_s"}},
      .has_row_headers = true};
  for (const StepTerm& term : terms) {
    table.columns.push_back({.title = term.name, .is_number = true, .key = term.path});
  }
  for (const Json* point : points) {
    Row row{{TextCell(view.TitleOf(*point)), SecondsCell(*point, "step_time_s")},
            {{"data-point", std::to_string(IdOf(*point))}}};
    for (const StepTerm& term : terms) row.cells.push_back(SecondsCell(*point, term.path));
    table.rows.push_back(std::move(row));
  }
  return table;
}

Series TermSeries(const WhatIfView& view, const std::vector<const Json*>& points,
                  const StepTerm& term) {
  Series series{.name = term.name, .color = term.color};
  for (size_t i = 0; i < points.size(); ++i) {
    const double seconds = NumberAt(*points[i], term.path).value_or(0);
    const double step_s = NumberAt(*points[i], "step_time_s").value_or(0);
    if (step_s <= 0) continue;
    series.marks.push_back(
        {.x = static_cast<double>(i),
         .y = seconds / step_s,
         .point = IdOf(*points[i]),
         .text = Concat(view.TitleOf(*points[i]), ": ", term.name, " ",
                        FormatQuantity(Quantity::kSeconds, seconds), ", ",
                        FormatQuantity(Quantity::kShare, seconds / step_s), " of the step")});
  }
  return series;
}

struct MemoryTerm {
  std::string name;
  double num_bytes = 0;
  std::string exact;
  std::string tag;
};

// By stage: the terms of the details, or the coarse parts that the point itself has.
std::vector<std::vector<MemoryTerm>> MemoryOf(const WhatIfView& view, const Json& detail) {
  std::vector<std::vector<MemoryTerm>> stages;
  for (const Json* stage : ListAt(detail, "memory_stages")) {
    std::vector<MemoryTerm>& terms = stages.emplace_back();
    for (const Json* term : ListAt(*stage, "terms")) {
      terms.push_back({TextAt(*term, "name"), NumberAt(*term, "bytes").value_or(0),
                       Find(*term, "bytes") ? Find(*term, "bytes")->dump() : "",
                       TextAt(*term, "tag")});
    }
  }
  if (!stages.empty()) return stages;
  const Json* point = view.PointOf(std::llround(NumberAt(detail, "point").value_or(-1)));
  if (point == nullptr) return stages;
  for (const Json* stage : ListAt(*point, "memory/stages")) {
    std::vector<MemoryTerm>& terms = stages.emplace_back();
    for (const char* name : {"weights", "gradients", "optimizer", "activations", "buffers"}) {
      const std::string key = Concat(name, "_bytes");
      if (const auto num_bytes = NumberAt(*stage, key)) {
        terms.push_back({name, *num_bytes, Find(*stage, key)->dump(), ""});
      }
    }
  }
  return stages;
}

std::vector<std::string> TermNames(const std::vector<std::vector<MemoryTerm>>& stages) {
  std::vector<std::string> names;
  for (const std::vector<MemoryTerm>& stage : stages) {
    for (const MemoryTerm& term : stage) {
      if (std::find(names.begin(), names.end(), term.name) == names.end()) {
        names.push_back(term.name);
      }
    }
  }
  return names;
}

const MemoryTerm* FindTerm(const std::vector<MemoryTerm>& stage, const std::string& name) {
  const auto found = std::find_if(stage.begin(), stage.end(),
                                  [&](const MemoryTerm& term) { return term.name == name; });
  return found == stage.end() ? nullptr : &*found;
}

void AddMemoryTerm(const std::vector<std::vector<MemoryTerm>>& stages, const std::string& name,
                   Chart& figure) {
  Series series{.name = name, .color = Concat("part-", figure.series.size() % kNumPartColors)};
  figure.table.columns.push_back({.title = name + " [GiB]", .is_number = true});
  for (size_t i = 0; i < stages.size(); ++i) {
    const MemoryTerm* term = FindTerm(stages[i], name);
    figure.table.rows[i].cells.push_back(
        term == nullptr
            ? MissingCell()
            : Cell{.text = FormatScaled(term->num_bytes, figure.x.scale), .value = term->exact});
    if (term == nullptr) continue;
    series.marks.push_back({.x = static_cast<double>(i),
                            .y = term->num_bytes,
                            .text = Concat("stage ", i, ": ", name, " ",
                                           FormatQuantity(Quantity::kBytes, term->num_bytes),
                                           term->tag.empty() ? "" : Concat(" (", term->tag, ")"))});
  }
  figure.series.push_back(std::move(series));
}

double DeviceMemoryOf(const WhatIfView& view, const Json& point) {
  const std::string name = TextAt(point, "cluster");
  // Another variant may have other memory.
  if (!TextAt(point, "variant").empty()) return 0;
  for (const Json* cluster : ListAt(view.document(), "clusters")) {
    if (TextAt(*cluster, "name") == name) return NumberAt(*cluster, "memory_bytes").value_or(0);
  }
  return 0;
}

}  // namespace

std::vector<StepTerm> StepTermsOf(const std::vector<const Json*>& points) {
  const bool is_split = std::all_of(points.begin(), points.end(), [](const Json* point) {
    return Find(*point, "compute/forward_s") != nullptr ||
           Find(*point, "time/compute_s") == nullptr;
  });
  std::vector<StepTerm> terms;
  for (const NamedTerm& term : kNamedTerms) {
    if (term.key == std::string("compute_s") && is_split) continue;
    std::string path = Concat("time/", term.key);
    if (!IsNonZeroSomewhere(points, path)) path = Concat("compute/", term.key);
    if (path.starts_with("compute/") && !is_split) continue;
    if (IsNonZeroSomewhere(points, path)) terms.push_back({path, term.name, term.color});
  }
  return terms;
}

std::optional<Chart> StepTimeChart(const WhatIfView& view) {
  const std::vector<const Json*> points = view.BestPoints(kMaxBars);
  const std::vector<StepTerm> terms = StepTermsOf(points);
  if (terms.empty()) return std::nullopt;
  Chart figure{.id = "figure-step", .kind = ChartKind::kBars};
  figure.x = {.label = "share of the step's time [%]",
              .quantity = Quantity::kShare,
              .scale = ScaleFor(Quantity::kShare, 1)};
  for (const Json* point : points) {
    figure.bars.push_back(view.TitleOf(*point));
    figure.bar_ends.push_back(
        FormatQuantity(Quantity::kSeconds, NumberAt(*point, "step_time_s").value_or(0)));
  }
  for (const StepTerm& term : terms) figure.series.push_back(TermSeries(view, points, term));
  figure.title = "Where the time of a step goes.";
  figure.caption =
      "The answer, the points it names, and those on the frontier. Communication counts where "
      "nothing hides it. Behind each bar: the length of the step.";
  figure.description = Concat("Stacked bar chart: the parts of a step's time of ", points.size(),
                              " points. The numbers are in the table below it.");
  figure.table = StepTimeTable(view, points, terms);
  return figure;
}

std::optional<Chart> MemoryChart(const WhatIfView& view, const Json& detail) {
  const auto id = std::llround(NumberAt(detail, "point").value_or(-1));
  const Json* point = view.PointOf(id);
  const std::vector<std::vector<MemoryTerm>> stages = MemoryOf(view, detail);
  if (point == nullptr || stages.empty()) return std::nullopt;
  Chart figure{.id = Concat("figure-memory-", id), .kind = ChartKind::kBars};
  figure.x = {.label = "memory of a device [GiB]",
              .quantity = Quantity::kBytes,
              .scale = ScaleFor(Quantity::kBytes, 1e12)};
  figure.title = Concat("Memory by stage: ", view.TitleOf(*point), ".");
  figure.table = {.caption = figure.title,
                  .columns = {{.title = "stage", .is_number = true}},
                  .has_row_headers = true};
  for (size_t i = 0; i < stages.size(); ++i) {
    figure.bars.push_back(Concat("stage ", i));
    double sum_bytes = 0;
    for (const MemoryTerm& term : stages[i]) sum_bytes += term.num_bytes;
    figure.bar_ends.push_back(FormatQuantity(Quantity::kBytes, sum_bytes));
    figure.table.rows.push_back({{{.text = std::to_string(i), .value = std::to_string(i)}}, {}});
  }
  for (const std::string& name : TermNames(stages)) AddMemoryTerm(stages, name, figure);
  figure.limit = DeviceMemoryOf(view, *point);
  figure.limit_text = "a device's memory";
  figure.caption = Concat("On the fullest device of each stage, at its peak. ",
                          TextAt(*point, "layout_text"), ".");
  figure.description = Concat("Stacked bar chart: memory of ", stages.size(),
                              " pipeline stages by term. The numbers are in the table below it.");
  return figure;
}

}  // namespace tessera::planner
