#include "planner/report/timeline_chart_json.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "cost_model/base/check.h"
#include "planner/report/html_text.h"
#include "planner/report/svg_text.h"

namespace tessera::planner {
namespace {

using base::Concat;

constexpr double kTimelineWidth = 960;
constexpr double kTimelineLeft = 74;
constexpr double kTimelineTop = 6;
constexpr double kTimelineBottom = 44;

struct Drawn {
  char kind = 'O';
  int64_t micro_batch = 0;
  int64_t chunk = 0;
  int64_t start = 0;  // of kTimelineParts
  int64_t end = 0;
};

// F, B (a whole backward pass), I and W (its two halves), O for anything else.
char KindOf(const std::string& name) {
  if (name == "F" || name == "B" || name == "W" || name == "I") return name[0];
  if (name == "BI") return 'I';
  if (name == "BW") return 'W';
  return 'O';
}

struct Timeline {
  double makespan_s = 0;
  std::vector<std::vector<Drawn>> stages;
  size_t num_actions = 0;
  int64_t num_actions_of_step = 0;
  int64_t shown = kTimelineParts;
};

Timeline ReadTimeline(const Json& detail) {
  Timeline timeline{.makespan_s = NumberAt(detail, "timeline/makespan_s").value_or(0)};
  if (timeline.makespan_s <= 0) return timeline;
  const double to_parts = kTimelineParts / timeline.makespan_s;
  for (const Json* stage : ListAt(detail, "timeline/stages")) {
    std::vector<Drawn>& actions = timeline.stages.emplace_back();
    if (!stage->is_array()) continue;
    for (const Json& action : *stage) {
      actions.push_back({KindOf(TextAt(action, "kind")),
                         std::llround(NumberAt(action, "micro_batch").value_or(0)),
                         std::llround(NumberAt(action, "chunk").value_or(0)),
                         std::llround(NumberAt(action, "start_s").value_or(0) * to_parts),
                         std::llround(NumberAt(action, "end_s").value_or(0) * to_parts)});
    }
    timeline.num_actions += actions.size();
  }
  // The document may hold the first part of a step only.
  const auto num_actions = NumberAt(detail, "timeline/num_actions");
  const auto shown_until_s = NumberAt(detail, "timeline/shown_until_s");
  if (num_actions && shown_until_s && *num_actions > static_cast<double>(timeline.num_actions)) {
    timeline.num_actions_of_step = std::llround(*num_actions);
    timeline.shown = std::llround(*shown_until_s * to_parts);
  } else {
    timeline.num_actions_of_step = static_cast<int64_t>(timeline.num_actions);
  }
  return timeline;
}

// Keeps the `max_actions` that end first, of all stages.
void Shorten(Timeline& timeline, size_t max_actions) {
  if (timeline.num_actions <= max_actions) return;
  std::vector<int64_t> ends;
  for (const auto& stage : timeline.stages) {
    for (const Drawn& action : stage) ends.push_back(action.end);
  }
  std::nth_element(ends.begin(), ends.begin() + static_cast<std::ptrdiff_t>(max_actions) - 1,
                   ends.end());
  timeline.shown = ends[max_actions - 1];
  for (auto& stage : timeline.stages) {
    std::erase_if(stage, [&](const Drawn& action) { return action.end > timeline.shown; });
  }
}

double RowHeight(const Timeline& timeline) {
  return timeline.stages.size() > 24 ? 13 : timeline.stages.size() > 10 ? 19 : 27;
}

// One path for each kind and chunk's parity of a stage: a thousand actions are as many short
// commands, not as many elements.
std::string StageSvg(const std::vector<Drawn>& actions, double top, double height) {
  std::map<std::string, std::string> path_by_class;
  for (const Drawn& action : actions) {
    const int64_t width = std::max<int64_t>(action.end - action.start, 1);
    path_by_class[Concat("do-", action.kind, action.chunk % 2 == 0 ? "" : " odd")] +=
        Concat("M", action.start, " ", SvgNumber(top), "h", width, "v", SvgNumber(height), "h-",
               width, "z");
  }
  std::string svg;
  for (const auto& [css_class, path] : path_by_class) {
    svg += Concat("<path class=\"", css_class, "\" d=\"", path, "\"/>\n");
  }
  return svg;
}

std::string TimelineSvg(const Timeline& timeline, const std::string& description) {
  const double row = RowHeight(timeline);
  const auto num_stages = static_cast<double>(timeline.stages.size());
  const double bottom = kTimelineTop + row * num_stages;
  std::string svg = Concat("<svg class=\"chart timeline\" viewBox=\"0 0 ",
                           SvgNumber(kTimelineWidth), " ", SvgNumber(bottom + kTimelineBottom),
                           "\" role=\"img\" aria-label=\"", EscapeHtml(description), "\">\n");
  std::string actions;
  for (size_t i = 0; i < timeline.stages.size(); ++i) {
    const double top = row * static_cast<double>(i);
    svg += SvgText({kTimelineLeft - 8, kTimelineTop + top + row / 2 + 3}, Concat("stage ", i),
                   "tick", "end");
    actions += StageSvg(timeline.stages[i], top + 1.5, row - 3);
  }
  svg += Concat("<svg class=\"actions\" x=\"", kTimelineLeft, "\" y=\"", kTimelineTop,
                "\" width=\"", kTimelineWidth - kTimelineLeft - 8, "\" height=\"", row * num_stages,
                "\" viewBox=\"0 0 ", timeline.shown, " ", row * num_stages,
                "\" preserveAspectRatio=\"none\">\n", actions, "</svg>\n<g class=\"time\"></g>\n");
  return svg +
         SvgText({kTimelineLeft + (kTimelineWidth - kTimelineLeft) / 2, bottom + 36},
                 "time since the step began", "label", "middle") +
         "</svg>\n";
}

Json TimelineData(const Timeline& timeline, const std::string& id) {
  Json stages = Json::array();
  for (const auto& stage : timeline.stages) {
    std::string kinds;
    Json micro_batches = Json::array(), chunks = Json::array(), starts = Json::array(),
         ends = Json::array();
    for (const Drawn& action : stage) {
      kinds += action.kind;
      micro_batches.push_back(action.micro_batch);
      chunks.push_back(action.chunk);
      starts.push_back(action.start);
      ends.push_back(action.end);
    }
    stages.push_back({{"kinds", kinds},
                      {"micro_batches", std::move(micro_batches)},
                      {"chunks", std::move(chunks)},
                      {"starts", std::move(starts)},
                      {"ends", std::move(ends)}});
  }
  return {{"id", id},
          {"makespan_s", timeline.makespan_s},
          {"parts", kTimelineParts},
          {"shown", timeline.shown},
          {"row", RowHeight(timeline)},
          {"stages", std::move(stages)}};
}

Table StageTable(const Timeline& timeline, const std::string& caption) {
  Table table{.caption = caption,
              .columns = {{.title = "stage", .is_number = true},
                          {.title = "actions", .is_number = true},
                          {.title = "busy", .is_number = true},
                          {.title = "first start", .is_number = true},
                          {.title = "last end", .is_number = true}},
              .has_row_headers = true};
  const double part_s = timeline.makespan_s / kTimelineParts;
  const auto time_cell = [&](int64_t parts) {
    const double seconds = static_cast<double>(parts) * part_s;
    return Cell{.text = FormatQuantity(Quantity::kSeconds, seconds), .value = Json(seconds).dump()};
  };
  for (size_t i = 0; i < timeline.stages.size(); ++i) {
    int64_t busy = 0, first = timeline.shown, last = 0;
    for (const Drawn& action : timeline.stages[i]) {
      busy += action.end - action.start;
      first = std::min(first, action.start);
      last = std::max(last, action.end);
    }
    const std::string count = std::to_string(timeline.stages[i].size());
    table.rows.push_back({{{.text = std::to_string(i), .value = std::to_string(i)},
                           {.text = count, .value = count},
                           time_cell(busy),
                           time_cell(first),
                           time_cell(last)},
                          {}});
  }
  return table;
}

std::string LegendHtml(const Timeline& timeline) {
  std::string kinds, html;
  bool has_chunks = false;
  for (const auto& stage : timeline.stages) {
    for (const Drawn& action : stage) {
      if (kinds.find(action.kind) == std::string::npos) kinds += action.kind;
      has_chunks = has_chunks || action.chunk > 0;
    }
  }
  const std::pair<char, const char*> names[] = {{'F', "forward"},
                                                {'B', "backward"},
                                                {'I', "backward, of inputs"},
                                                {'W', "backward, of weights"},
                                                {'O', "other"}};
  for (const auto& [kind, name] : names) {
    if (kinds.find(kind) == std::string::npos) continue;
    html += Concat("<li><span class=\"swatch\" style=\"--color:var(--do-", kind, ")\"></span>",
                   name, "</li>\n");
  }
  if (has_chunks) html += "<li>paler: virtual stages of odd number</li>\n";
  return Concat("<ul class=\"legend\" aria-hidden=\"true\">\n", html, "</ul>\n");
}

}  // namespace

std::optional<TimelineChart> MakeTimelineChart(const WhatIfView& view, const Json& detail,
                                               int number, size_t max_actions) {
  const auto point_id = std::llround(NumberAt(detail, "point").value_or(-1));
  const Json* point = view.PointOf(point_id);
  Timeline timeline = ReadTimeline(detail);
  if (point == nullptr || timeline.num_actions == 0) return std::nullopt;
  Shorten(timeline, max_actions);
  const std::string id = Concat("figure-timeline-", point_id);
  const std::string title = Concat("One step of the pipeline: ", view.TitleOf(*point), ".");
  std::string caption =
      Concat("As simulated: ", FormatQuantity(Quantity::kSeconds, timeline.makespan_s), " for ",
             FormatQuantity(Quantity::kCount, static_cast<double>(timeline.num_actions_of_step)),
             " forward and backward passes. ", TextAt(*point, "layout_text"), ".");
  if (timeline.shown < kTimelineParts) {
    const double shown = static_cast<double>(timeline.shown) / kTimelineParts;
    caption += Concat(" Drawn is the first part of it, ",
                      FormatQuantity(Quantity::kSeconds, shown * timeline.makespan_s), ".");
  }
  const std::string description =
      Concat("Timeline of ", timeline.stages.size(), " pipeline stages over one step. Arrow keys ",
             "go from action to action, plus and minus zoom. A summary is in the table below it.");
  std::string html = Concat(
      "<figure id=\"", id, "\" class=\"timeline-figure\">\n<figcaption><b>Figure ", number, ". ",
      EscapeHtml(title), "</b> ", EscapeHtml(caption), "</figcaption>\n", LegendHtml(timeline),
      "<div class=\"zoom\" hidden></div>\n<div class=\"wide drawing\" tabindex=\"0\" "
      "role=\"group\" ",
      "aria-label=\"", EscapeHtml(description), "\">\n", TimelineSvg(timeline, description),
      "</div>\n<p class=\"told\" aria-live=\"polite\"></p>\n<details "
      "class=\"numbers\"><summary>The ",
      "numbers of figure ", number, "</summary>\n", TableHtml(StageTable(timeline, title)),
      "</details>\n</figure>\n");
  size_t num_drawn = 0;
  for (const auto& stage : timeline.stages) num_drawn += stage.size();
  return TimelineChart{std::move(html), TimelineData(timeline, id), num_drawn};
}

}  // namespace tessera::planner
