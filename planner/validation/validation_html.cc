#include "planner/validation/validation_html.h"

#include "cost_model/base/check.h"
#include "planner/layout_text.h"
#include "planner/text_format.h"
#include "planner/validation/html_text.h"
#include "planner/validation/validation_scatter.h"
#include "planner/validation/validation_text.h"

namespace tessera::planner {
namespace {

using base::Concat;

constexpr const char* kHead = R"html(<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Tessera: predicted and measured</title>
<style>
:root { --paper: #fff; --ink: #1d232b; --faint: #d5d9df; --band: #8892a0; }
@media (prefers-color-scheme: dark) {
  :root { --paper: #14181d; --ink: #dfe4ea; --faint: #353c45; --band: #7d8794; }
}
body { background: var(--paper); color: var(--ink); font: 15px/1.5 system-ui, sans-serif;
       max-width: 1100px; margin: 2rem auto; padding: 0 1rem; }
svg { max-width: 760px; width: 100%; display: block; }
svg text { fill: var(--ink); font-size: 13px; }
.grid { stroke: var(--faint); }
.diagonal { stroke: var(--ink); }
.band { stroke: var(--band); stroke-dasharray: 5 4; }
circle { fill-opacity: 0.65; }
table { border-collapse: collapse; font-size: 13px; }
th, td { padding: 0.2rem 0.6rem; border-bottom: 1px solid var(--faint); text-align: left;
         font-variant-numeric: tabular-nums; }
th { position: sticky; top: 0; background: var(--paper); }
#rows th { cursor: pointer; }
.number { text-align: right; }
.dot { display: inline-block; width: 0.7em; height: 0.7em; border-radius: 50%; }
.wide { overflow-x: auto; }
</style>
</head>
<body>
<h1>Predicted and measured</h1>
)html";

// Sorts numbers as such, empty cells last; a second click turns the order.
constexpr const char* kTail = R"html(<script>
document.querySelectorAll('#rows th').forEach((header, column) => {
  let ascending = true;
  header.addEventListener('click', () => {
    const body = document.querySelector('#rows tbody');
    const keyOf = row => row.cells[column].dataset.key ?? row.cells[column].textContent;
    const sorted = Array.from(body.rows).sort((a, b) => {
      const [x, y] = [keyOf(a), keyOf(b)];
      if (x === '' || y === '') return (x === '') - (y === '');
      const order = isNaN(x) || isNaN(y) ? x.localeCompare(y) : x - y;
      return ascending ? order : -order;
    });
    ascending = !ascending;
    body.append(...sorted);
  });
});
</script>
</body>
</html>
)html";

std::string NumberCell(const std::string& text, double key) {
  return Concat("<td class='number' data-key='", key, "'>", text, "</td>");
}

std::string EmptyCell() { return "<td data-key=''></td>"; }

std::string TextCell(const std::string& text) { return "<td>" + EscapeHtml(text) + "</td>"; }

std::string ErrorCells(const ErrorScore& score) {
  std::string html = Concat("<td class='number'>", score.num_rows, "</td>");
  if (score.num_rows == 0) return html + "<td></td><td></td><td></td>";
  return Concat(html, "<td class='number'>", FormatPercent(score.mean_absolute),
                "</td><td class='number'>", FormatPercent(score.median_absolute),
                "</td><td class='number'>", FormatSignedPercent(score.bias), "</td>");
}

std::string ScoreLine(const RowsScore& score, const std::string& color) {
  const std::string dot =
      color.empty() ? "" : Concat("<span class='dot' style='background:", color, "'></span> ");
  return Concat("<tr><td>", dot, EscapeHtml(score.name), "</td><td class='number'>", score.num_rows,
                "</td><td class='number'>", score.num_skipped, "</td>", ErrorCells(score.step_time),
                ErrorCells(score.memory), "</tr>\n");
}

std::string ScoresTable(const Validation& validation) {
  std::string html =
      "<h2>By source and by kind</h2>\n<div class='wide'><table><thead><tr><th></th><th>rows</th>"
      "<th>skipped</th><th>step times</th><th>mean</th><th>median</th><th>bias</th><th>memory</th>"
      "<th>mean</th><th>median</th><th>bias</th></tr></thead><tbody>\n";
  for (const RowsScore& source : validation.sources) {
    html += ScoreLine(source, SourceColor(validation, source.name));
  }
  for (const RowsScore& kind : validation.kinds) html += ScoreLine(kind, "");
  return html + ScoreLine(validation.total, "") + "</tbody></table></div>\n";
}

std::string MemoryCells(const RowResult& row) {
  const auto error = MemoryError(row);
  if (!error) return EmptyCell() + EmptyCell() + EmptyCell();
  return NumberCell(FormatBytes(*row.measurement.peak_memory_bytes),
                    *row.measurement.peak_memory_bytes) +
         NumberCell(FormatBytes(row.predicted_peak_memory_bytes), row.predicted_peak_memory_bytes) +
         NumberCell(FormatSignedPercent(*error), *error);
}

std::string RowLine(const RowResult& row) {
  std::string html = "<tr>" + TextCell(row.measurement.id) + TextCell(row.measurement.source) +
                     TextCell(row.is_priced() ? LayoutText(row.parallel) : row.skipped);
  const auto& measured_s = row.measurement.step_time_s;
  html += measured_s ? NumberCell(FormatSeconds(*measured_s), *measured_s) : EmptyCell();
  html += row.is_priced()
              ? NumberCell(FormatSeconds(row.predicted_step_time_s), row.predicted_step_time_s)
              : EmptyCell();
  const auto error = StepTimeError(row);
  html += error ? NumberCell(FormatSignedPercent(*error), *error) : EmptyCell();
  return html + MemoryCells(row) +
         TextCell(!row.is_priced() ? ""
                  : row.fits       ? "fits"
                                   : "does not fit") +
         "</tr>\n";
}

}  // namespace

std::string ValidationHtml(const Validation& validation) {
  std::string html = kHead;
  for (const std::string& sentence : ValidationSummary(validation)) {
    html += "<p>" + EscapeHtml(sentence) + "</p>\n";
  }
  html += "<h2>Step times</h2>\n<p>Each dot is a measurement; the dashed lines are 10 % off.</p>\n";
  html += StepTimeScatter(validation) + ScoresTable(validation);
  html +=
      "<h2>All rows</h2>\n<div class='wide'><table id='rows'><thead><tr><th>id</th><th>source</th>"
      "<th>layout, or why skipped</th><th>measured</th><th>predicted</th><th>error</th>"
      "<th>memory measured</th><th>predicted</th><th>error</th><th>verdict</th></tr></thead>"
      "<tbody>\n";
  for (const RowResult& row : validation.rows) html += RowLine(row);
  return html + "</tbody></table></div>\n" + kTail;
}

}  // namespace tessera::planner
