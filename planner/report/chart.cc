#include "planner/report/chart.h"

#include <array>
#include <set>

#include "cost_model/base/check.h"
#include "planner/report/html_text.h"
#include "planner/report/static_chart.h"

namespace tessera::planner {
namespace {

using base::Concat;

std::string SwatchHtml(const std::string& color, const std::string& name, const std::string& keys) {
  return Concat("<li", keys, "><span class=\"swatch\" style=\"--color:var(--", color, ")\"></span>",
                EscapeHtml(name), "</li>\n");
}

std::string DashHtml(int style, const std::string& name) {
  return Concat("<li data-style=\"", style, "\"><svg class=\"dash\" viewBox=\"0 0 34 8\" ",
                "aria-hidden=\"true\"><path class=\"line dash-", style % kNumDashes,
                "\" d=\"M0 4H34\"/></svg>", EscapeHtml(name), "</li>\n");
}

// Colours of the groups and dashes of the styles that occur; of bars and others, all series.
std::string LegendHtml(const Chart& figure, const SeriesKeys& keys) {
  std::string html;
  std::set<std::string> named;
  std::set<int> styles;
  for (const Series& series : figure.series) {
    const bool is_grouped = series.group >= 0;
    const std::string name =
        is_grouped ? keys.groups[static_cast<size_t>(series.group)] : series.name;
    if (named.insert(name).second) {
      html += SwatchHtml(series.color, name,
                         is_grouped ? Concat(" data-group=\"", series.group, "\"") : "");
    }
    if (series.style >= 0 && series.is_line) styles.insert(series.style);
  }
  if (figure.answer >= 0 && figure.kind != ChartKind::kBars) {
    html += Concat("<li><span class=\"answer-ring\"></span>", EscapeHtml(figure.answer_name),
                   "</li>\n");
  }
  if (styles.size() > 1) {
    for (const int style : styles) html += DashHtml(style, keys.styles[style]);
  }
  return Concat("<ul class=\"legend\" aria-hidden=\"true\">\n", html, "</ul>\n");
}

}  // namespace

std::string ChartHtml(const Chart& figure, int number, const SeriesKeys& keys) {
  const std::string id = EscapeHtml(figure.id);
  return Concat("<figure id=\"", id, "\" data-key=\"", EscapeHtml(figure.key),
                "\">\n<figcaption><b>Figure ", number, ". ", EscapeHtml(figure.title), "</b> ",
                EscapeHtml(figure.caption), "</figcaption>\n", LegendHtml(figure, keys),
                "<div class=\"live\"><canvas role=\"img\" tabindex=\"0\" aria-label=\"",
                EscapeHtml(figure.description), "\"></canvas></div>\n<div class=\"still\">\n",
                StaticChart(figure),
                "</div>\n<details class=\"numbers\"><summary>The numbers of figure ", number,
                "</summary>\n", TableHtml(figure.table), "</details>\n</figure>\n");
}

}  // namespace tessera::planner
