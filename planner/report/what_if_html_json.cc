#include "planner/report/what_if_html_json.h"

#include <nlohmann/json.hpp>

#include "cost_model/base/check.h"
#include "planner/report/chart_json.h"
#include "planner/report/html_text.h"
#include "planner/report/page.h"
#include "planner/report/page_assets.h"
#include "planner/report/report_tables_json.h"
#include "planner/report/step_charts_json.h"
#include "planner/report/sweep_charts_json.h"
#include "planner/report/timeline_chart_json.h"
#include "planner/report/what_if_summary_json.h"

namespace tessera::planner {
namespace {

using base::Concat;

// Of all timelines together: about 50 bytes each in the page.
constexpr size_t kMaxActions = 24'000;

// The charts in their order, numbered, and what the scripts need to draw them.
class Charts {
 public:
  explicit Charts(const WhatIfView& view) : view_(view) {}

  std::string Add(const Chart& figure) {
    figures_.push_back(ChartToJson(figure));
    return ChartHtml(figure, ++number_, view_.keys());
  }

  std::string Add(const std::optional<Chart>& figure) { return figure ? Add(*figure) : ""; }

  // One of `num_left` that share the actions not drawn yet.
  std::string AddTimeline(const Json& detail, size_t num_left) {
    const auto chart = MakeTimelineChart(view_, detail, number_ + 1, max_actions_ / num_left);
    if (!chart) return "";
    max_actions_ -= chart->num_actions;
    ++number_;
    timelines_.push_back(chart->data);
    return chart->html;
  }

  std::string ChartsJson() const { return figures_.dump(); }
  std::string TimelinesJson() const { return timelines_.dump(); }

 private:
  const WhatIfView& view_;
  int number_ = 0;
  size_t max_actions_ = kMaxActions;
  Json figures_ = Json::array();
  Json timelines_ = Json::array();
};

struct Section {
  std::string id;
  std::string title;
  std::string html;  // empty: the section is left out
};

std::string SweepSection(const WhatIfView& view, Charts& charts) {
  std::string html;
  for (const Chart& figure : SweepCharts(view)) html += charts.Add(figure);
  if (html.empty()) return "";
  return WhatIfFilters(view) + html;
}

std::string DetailsSection(const WhatIfView& view, Charts& charts) {
  std::string html = charts.Add(StepTimeChart(view));
  const std::vector<const Json*> details = ListAt(view.document(), "details");
  for (size_t i = 0; i < details.size(); ++i) {
    html += charts.Add(MemoryChart(view, *details[i]));
    html += charts.AddTimeline(*details[i], details.size() - i);
  }
  return html;
}

std::string TableSection(const Table& table) {
  return table.rows.empty() || table.columns.empty() ? "" : TableHtml(table);
}

std::string CommandSection(const WhatIfView& view) {
  const std::string command = TextAt(view.document(), "command");
  if (command.empty()) return "";
  return Concat("<pre class=\"command\" tabindex=\"0\"><code>", EscapeHtml(command),
                "</code></pre>\n<p>The numbers of this page, and more of each point, are what the ",
                "same command prints with <code>--format json</code> or writes with ",
                "<code>--json</code>.</p>\n");
}

std::string ChartsNote() {
  if (!ChartLibrary().empty()) return "";
  return "<p class=\"note\" id=\"static-charts\">The charts of this page are static: this program "
         "was built without Chart.js (Debian: libjs-chart.js).</p>\n";
}

std::string BodyHtml(const WhatIfView& view, const std::vector<Section>& sections) {
  std::string navigation, content;
  for (const Section& section : sections) {
    if (section.html.empty()) continue;
    navigation += Concat("<li><a href=\"#", section.id, "\">", section.title, "</a></li>\n");
    content += Concat("<section id=\"", section.id, "\">\n<h2>", section.title, "</h2>\n",
                      section.html, "</section>\n");
  }
  return Concat("<header>\n<p class=\"kind\">Tessera: sizing a cluster</p>\n<h1>",
                WhatIfHeading(view), "</h1>\n<div id=\"tools\" hidden></div>\n</header>\n",
                "<main id=\"content\" tabindex=\"-1\">\n", WhatIfSummary(view), ChartsNote(),
                "<nav aria-label=\"Sections\">\n<ul>\n", navigation, "</ul>\n</nav>\n", content,
                "</main>\n");
}

// Without what the page holds in a shorter form.
std::string DataJson(Json document) {
  if (const auto details = document.find("details"); details != document.end()) {
    for (Json& detail : *details) detail.erase("timeline");
  }
  return document.dump();
}

}  // namespace

std::string WhatIfHtml(const Json& document) {
  const WhatIfView view(document);
  Charts charts(view);
  std::vector<Section> sections;
  sections.push_back({"sweep", "The sweep", SweepSection(view, charts)});
  sections.push_back({"steps", "Inside a step", DetailsSection(view, charts)});
  sections.push_back({"comparison", "Comparison", charts.Add(ComparisonChart(view))});
  sections.push_back({"margins", "What a change would bring", TableSection(MarginsTable(view))});
  sections.push_back(
      {"crossovers", "Where the best layout changes", TableSection(CrossoversTable(view))});
  sections.push_back({"all-points", "All points", TableSection(PointsTable(view))});
  sections.push_back({"clusters", "The clusters", TableSection(ClustersTable(view))});
  sections.push_back({"all-assumptions", "Assumptions", TableSection(AssumptionsTable(view))});
  sections.push_back({"all-formulas", "Formulas", TableSection(FormulasTable(view))});
  sections.push_back({"command", "The command", CommandSection(view)});
  return PageHtml({.title = WhatIfTitle(view),
                   .body = BodyHtml(view, sections),
                   .data = {{"data", DataJson(document)},
                            {"figures", charts.ChartsJson()},
                            {"timelines", charts.TimelinesJson()}},
                   .needs_charts = true});
}

}  // namespace tessera::planner
