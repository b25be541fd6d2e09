// Charts as data: what a page's scripts draw with Chart.js and static_chart.h draws as SVG.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/report/quantity.h"
#include "planner/report/table.h"

namespace tessera::planner {

enum class ChartKind { kLines, kScatter, kBars };

struct Axis {
  std::string label;  // with the unit
  Quantity quantity = Quantity::kPlain;
  Scale scale;
  bool is_log = false;
  bool starts_at_zero = true;  // of a linear axis
};

struct Mark {
  double x = 0;        // of bars: the number of the bar
  double y = 0;        // of bars: the length of this part
  int64_t point = -1;  // of the sweep; -1: none
  std::string text;    // all about it, in one line
  std::string label;   // written beside it; empty: nothing
};

// Lines are told apart by colour and, beyond that, by as many patterns of dashes: the classes
// dash-0 to dash-5 of page.css.
constexpr int kNumDashes = 6;

struct Series {
  std::string name;
  std::string color;      // the name of a colour of page.css: "series-0", "term-forward"
  int group = -1;         // what the page's filters know it by; -1: always shown
  int style = -1;         // the same, and its dashes
  bool is_line = true;    // of a scatter chart: joined
  std::string end_label;  // written at its last mark
  std::vector<Mark> marks;
};

struct Chart {
  std::string id;
  std::string key;  // where the document has a point's y: "tokens_per_s"; empty: no single place
  ChartKind kind = ChartKind::kLines;
  std::string title;
  std::string caption;      // what to see, how to read it
  std::string description;  // for those who cannot see it
  Axis x;                   // of bars: along them
  Axis y;
  std::vector<std::string> bars;      // their names
  std::vector<std::string> bar_ends;  // what is written behind them; may be empty
  double limit = 0;                   // a line across all bars, with its name; 0: none
  std::string limit_text;
  std::vector<Series> series;
  int64_t answer = -1;  // the point to point out, and what it is
  std::string answer_name;
  Table table;  // the same numbers to read
};

// What the series have in common: names of groups, shown by colours, and of styles, by dashes.
struct SeriesKeys {
  std::vector<std::string> groups;
  std::vector<std::string> styles;
};

// A <figure> with its number, an empty canvas for the scripts, the chart as SVG, the legend, and
// the table folded away.
std::string ChartHtml(const Chart& figure, int number, const SeriesKeys& keys);

}  // namespace tessera::planner
