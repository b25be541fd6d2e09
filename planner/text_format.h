// Numbers and tables as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tessera::planner {

std::string FormatFixed(double value, int decimals);
std::string FormatSeconds(double seconds);  // "18.13 s", "4.20 ms", "3.1 us"
std::string FormatBytes(double bytes);      // "61.2 GiB", "512.0 MiB"
// "124.40 M" for 124.4e6: two decimals and an SI prefix, for units or nouns to follow.
std::string FormatSi(double value);
std::string FormatPercent(double share);  // "47.3 %" for 0.473
std::string FormatCount(int64_t count);   // "1,024"
// "1 layout", "2 layouts".
std::string FormatPlural(int64_t count, const std::string& noun);

// Rows of cells under a header, columns as wide as they need be. Text is aligned left, a column in
// which every cell below the header starts with a digit, a sign or a $ is aligned right.
class TextTable {
 public:
  explicit TextTable(std::vector<std::string> header) : rows_{std::move(header)} {}
  void AddRow(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
  // Lines, each indented by `indent` blanks and ended by a newline.
  std::string ToString(int indent = 0) const;

 private:
  std::vector<std::vector<std::string>> rows_;
};

// "  text" broken at blanks into lines of at most 100 columns, the first led by `bullet`.
std::string WrapText(const std::string& text, const std::string& bullet);

}  // namespace tessera::planner
