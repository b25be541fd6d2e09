#include "planner/validation/validation_html.h"

#include <array>
#include <charconv>

#include "cost_model/base/check.h"
#include "planner/layout_text.h"
#include "planner/report/html_text.h"
#include "planner/report/page.h"
#include "planner/report/table.h"
#include "planner/text_format.h"
#include "planner/validation/validation_scatter.h"
#include "planner/validation/validation_text.h"

namespace tessera::planner {
namespace {

using base::Concat;

Cell NumberCell(const std::string& text, double value) {
  std::array<char, 32> digits;  // the shortest that reads back as the same number: 24 at most
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  return {.text = text, .value = std::string(digits.data(), end)};
}

Cell CountCell(int64_t count) {
  return {.text = FormatCount(count), .value = std::to_string(count)};
}

void AddErrorCells(const ErrorScore& score, Row& row) {
  row.cells.push_back(CountCell(score.num_rows));
  if (score.num_rows == 0) {
    row.cells.insert(row.cells.end(), 3, MissingCell());
    return;
  }
  row.cells.push_back(NumberCell(FormatPercent(score.mean_absolute), score.mean_absolute));
  row.cells.push_back(NumberCell(FormatPercent(score.median_absolute), score.median_absolute));
  row.cells.push_back(NumberCell(FormatSignedPercent(score.bias), score.bias));
}

Row ScoreRow(const RowsScore& score, const std::string& color) {
  Row row{{{.text = score.name, .color = color},
           CountCell(score.num_rows),
           CountCell(score.num_skipped)},
          {}};
  AddErrorCells(score.step_time, row);
  AddErrorCells(score.memory, row);
  return row;
}

Table ScoresTable(const Validation& validation) {
  Table table{.caption = "Errors by source and by kind",
              .columns = {{.title = "rows of"},
                          {.title = "rows", .is_number = true},
                          {.title = "skipped", .is_number = true}},
              .is_sortable = false,
              .has_row_headers = true};
  for (const char* what : {"step times", "memory"}) {
    for (const char* score : {"", ", mean", ", median", ", bias"}) {
      table.columns.push_back({.title = Concat(what, score), .is_number = true});
    }
  }
  for (const RowsScore& source : validation.sources) {
    table.rows.push_back(ScoreRow(source, SourceColor(validation, source.name)));
  }
  for (const RowsScore& kind : validation.kinds) table.rows.push_back(ScoreRow(kind, ""));
  table.rows.push_back(ScoreRow(validation.total, ""));
  return table;
}

void AddMemoryCells(const RowResult& result, Row& row) {
  const auto error = MemoryError(result);
  if (!error) {
    row.cells.insert(row.cells.end(), 3, MissingCell());
    return;
  }
  const auto measured_bytes = static_cast<double>(*result.measurement.peak_memory_bytes);
  const auto predicted_bytes = static_cast<double>(result.predicted_peak_memory_bytes);
  row.cells.push_back(NumberCell(FormatBytes(measured_bytes), measured_bytes));
  row.cells.push_back(NumberCell(FormatBytes(predicted_bytes), predicted_bytes));
  row.cells.push_back(NumberCell(FormatSignedPercent(*error), *error));
}

Row ResultRow(const RowResult& result) {
  Row row{{TextCell(result.measurement.id), TextCell(result.measurement.source),
           TextCell(result.is_priced() ? LayoutText(result.parallel) : result.skipped)},
          {}};
  const auto seconds_cell = [](double seconds) {
    return NumberCell(FormatSeconds(seconds), seconds);
  };
  const auto& measured_s = result.measurement.step_time_s;
  const auto error = StepTimeError(result);
  row.cells.push_back(measured_s ? seconds_cell(*measured_s) : MissingCell());
  row.cells.push_back(result.is_priced() ? seconds_cell(result.predicted_step_time_s)
                                         : MissingCell());
  row.cells.push_back(error ? NumberCell(FormatSignedPercent(*error), *error) : MissingCell());
  AddMemoryCells(result, row);
  row.cells.push_back(!result.is_priced() ? MissingCell()
                                          : TextCell(result.fits ? "fits" : "does not fit"));
  return row;
}

Table RowsTable(const Validation& validation) {
  Table table{.id = "rows",
              .caption = "All rows",
              .columns = {{.title = "id"},
                          {.title = "source"},
                          {.title = "layout, or why skipped"},
                          {.title = "step measured", .is_number = true},
                          {.title = "predicted", .is_number = true},
                          {.title = "error", .is_number = true},
                          {.title = "memory measured", .is_number = true},
                          {.title = "predicted", .is_number = true},
                          {.title = "error", .is_number = true},
                          {.title = "verdict"}},
              .has_row_headers = true};
  for (const RowResult& result : validation.rows) table.rows.push_back(ResultRow(result));
  return table;
}

}  // namespace

std::string ValidationHtml(const Validation& validation) {
  std::string body =
      "<header>\n<p class=\"kind\">Tessera: the cost model against published "
      "measurements</p>\n<h1>Predicted and measured</h1>\n<div id=\"tools\" hidden></div>\n"
      "</header>\n<main id=\"content\" tabindex=\"-1\">\n";
  for (const std::string& sentence : ValidationSummary(validation)) {
    body += "<p>" + EscapeHtml(sentence) + "</p>\n";
  }
  body +=
      "<section>\n<h2>Step times</h2>\n<p>Each dot is a measurement; the dashed lines are 10 % "
      "off.</p>\n";
  body += StepTimeScatter(validation) + "</section>\n<section>\n<h2>By source and by kind</h2>\n" +
          TableHtml(ScoresTable(validation)) + "</section>\n<section id=\"all-rows\">\n" +
          "<h2>All rows</h2>\n" + TableHtml(RowsTable(validation)) + "</section>\n</main>\n";
  return PageHtml({.title = "Tessera: predicted and measured", .body = std::move(body)});
}

}  // namespace tessera::planner
