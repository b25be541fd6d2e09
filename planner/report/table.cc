#include "planner/report/table.h"

#include "cost_model/base/check.h"
#include "planner/report/html_text.h"

namespace tessera::planner {
namespace {

using base::Concat;

std::string ClassOf(const Column& column, const Cell& cell) {
  std::string names;
  if (column.is_number) names += " number";
  if (column.is_minor) names += " minor";
  if (cell.is_long) names += " long";
  return names.empty() ? "" : Concat(" class=\"", names.substr(1), "\"");
}

std::string HeaderHtml(const Table& table) {
  std::string html = "<thead><tr>";
  for (const Column& column : table.columns) {
    const std::string title = EscapeHtml(column.title);
    html += Concat("<th scope=\"col\"", ClassOf(column, {}));
    if (!column.key.empty()) html += Concat(" data-key=\"", EscapeHtml(column.key), "\"");
    html += table.is_sortable
                ? Concat(" aria-sort=\"none\"><button type=\"button\">", title, "</button></th>")
                : Concat(">", title, "</th>");
  }
  return html + "</tr></thead>\n";
}

std::string CellHtml(const Cell& cell, const Column& column, bool is_header) {
  std::string html = is_header ? "<th scope=\"row\"" : "<td";
  html += ClassOf(column, cell);
  if (!cell.value.empty()) html += Concat(" data-value=\"", EscapeHtml(cell.value), "\"");
  if (cell.point >= 0) html += Concat(" data-point=\"", cell.point, "\"");
  if (cell.is_missing) html += " data-missing";
  html += ">";
  if (!cell.color.empty()) {
    html += Concat("<span class=\"swatch\" style=\"--color:", EscapeHtml(cell.color), "\"></span>");
  }
  return Concat(html, EscapeHtml(cell.text), is_header ? "</th>" : "</td>");
}

std::string RowHtml(const Row& row, const Table& table) {
  TESSERA_CHECK(row.cells.size() == table.columns.size(), "a row of table ", table.id, " has ",
                row.cells.size(), " cells, the header ", table.columns.size());
  std::string html = "<tr";
  for (const auto& [name, value] : row.attributes) {
    html += Concat(" ", name, "=\"", EscapeHtml(value), "\"");
  }
  html += ">";
  for (size_t i = 0; i < row.cells.size(); ++i) {
    html += CellHtml(row.cells[i], table.columns[i], i == 0 && table.has_row_headers);
  }
  return html + "</tr>\n";
}

}  // namespace

std::string TableHtml(const Table& table) {
  const std::string caption = EscapeHtml(table.caption);
  std::string html = Concat("<div class=\"wide\" role=\"region\" tabindex=\"0\" aria-label=\"",
                            caption, "\">\n<table");
  if (!table.id.empty()) html += Concat(" id=\"", EscapeHtml(table.id), "\"");
  if (table.is_sortable) html += " class=\"sortable\"";
  html += Concat(">\n<caption>", caption, "</caption>\n", HeaderHtml(table), "<tbody>\n");
  for (const Row& row : table.rows) html += RowHtml(row, table);
  return html + "</tbody>\n</table>\n</div>\n";
}

}  // namespace tessera::planner
