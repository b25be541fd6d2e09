// A table of a page.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace tessera::planner {

struct Cell {
  std::string text;  // as people read it; plain text
  // The exact number, as the document's JSON has it; empty: text, which sorts as such.
  std::string value;
  bool is_missing = false;  // sorts last, whatever the direction
  std::string color;        // of CSS: a spot of it before the text; empty: none
  bool is_long = false;     // a sentence: may be broken into lines
  int64_t point = -1;       // of the sweep, that the number belongs to; -1: none, or the row's
};

inline Cell TextCell(const std::string& text) { return {.text = text}; }
inline Cell MissingCell() { return {.is_missing = true}; }

struct Column {
  std::string title;
  bool is_number = false;
  bool is_minor = false;  // not worth the paper of a printed page
  std::string key;  // where the document has the numbers: "run/days"; empty: it is no number of it
};

struct Row {
  std::vector<Cell> cells;
  // Attributes of the row for the page's scripts: "data-group" -> "2".
  std::vector<std::pair<std::string, std::string>> attributes;
};

struct Table {
  std::string id;       // empty: none
  std::string caption;  // plain text
  std::vector<Column> columns;
  std::vector<Row> rows;
  bool is_sortable = true;
  bool has_row_headers = false;  // the first cell of a row names it
};

// In a frame that scrolls sideways where the page is too narrow; reached and scrolled by keyboard.
std::string TableHtml(const Table& table);

}  // namespace tessera::planner
