#include "planner/text_format.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <iomanip>
#include <sstream>

#include "cost_model/base/check.h"

namespace tessera::planner {
namespace {

constexpr size_t kLineWidth = 100;

struct Unit {
  double size;
  const char* name;
  int decimals;
};

template <size_t n>
std::string FormatWithUnit(double value, const std::array<Unit, n>& units) {
  for (const Unit& unit : units) {
    if (std::abs(value) >= unit.size) {
      return base::Concat(FormatFixed(value / unit.size, unit.decimals), " ", unit.name);
    }
  }
  const Unit& last = units.back();
  return base::Concat(FormatFixed(value / last.size, last.decimals), " ", last.name);
}

// Characters of UTF-8 text: bytes that do not continue one.
size_t WidthOf(const std::string& cell) {
  return static_cast<size_t>(std::count_if(cell.begin(), cell.end(), [](char byte) {
    return (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
  }));
}

bool IsNumber(const std::string& cell) {
  return cell.empty() || std::isdigit(static_cast<unsigned char>(cell[0])) || cell[0] == '-' ||
         cell[0] == '+' || cell[0] == '$';
}

}  // namespace

std::string FormatFixed(double value, int decimals) {
  std::ostringstream text;
  text << std::fixed << std::setprecision(decimals) << value;
  std::string digits = text.str();
  // What rounds to zero has no sign.
  if (digits.find_first_not_of("-0.") == std::string::npos && digits.front() == '-') {
    digits.erase(0, 1);
  }
  return digits;
}

std::string FormatSeconds(double seconds) {
  constexpr std::array<Unit, 3> kUnits = {{{1, "s", 2}, {1e-3, "ms", 2}, {1e-6, "us", 1}}};
  if (seconds == 0) return "0 s";
  if (std::abs(seconds) >= 100) return base::Concat(FormatFixed(seconds, 1), " s");
  return FormatWithUnit(seconds, kUnits);
}

std::string FormatBytes(double bytes) {
  constexpr std::array<Unit, 4> kUnits = {{{1024.0 * 1024 * 1024, "GiB", 1},
                                           {1024.0 * 1024, "MiB", 1},
                                           {1024.0, "KiB", 1},
                                           {1, "B", 0}}};
  return FormatWithUnit(bytes, kUnits);
}

std::string FormatSi(double value) {
  constexpr std::array<Unit, 7> kUnits = {{{1e18, "E", 2},
                                           {1e15, "P", 2},
                                           {1e12, "T", 2},
                                           {1e9, "G", 2},
                                           {1e6, "M", 2},
                                           {1e3, "k", 2},
                                           {1, "", 2}}};
  return FormatWithUnit(value, kUnits);
}

std::string FormatPercent(double share) { return FormatFixed(100 * share, 1) + " %"; }

std::string FormatCount(int64_t count) {
  std::string digits = std::to_string(count);
  const size_t first = digits[0] == '-' ? 1 : 0;
  for (size_t i = digits.size(); i > first + 3;) {
    i -= 3;
    digits.insert(digits.begin() + static_cast<std::ptrdiff_t>(i), ',');
  }
  return digits;
}

std::string FormatPlural(int64_t count, const std::string& noun) {
  return base::Concat(FormatCount(count), " ", noun, count == 1 ? "" : "s");
}

std::string TextTable::ToString(int indent) const {
  const size_t num_columns = rows_[0].size();
  std::vector<size_t> widths(num_columns, 0);
  std::vector<bool> is_right(num_columns, true);
  for (size_t r = 0; r < rows_.size(); ++r) {
    for (size_t c = 0; c < rows_[r].size(); ++c) {
      widths[c] = std::max(widths[c], WidthOf(rows_[r][c]));
      if (r > 0 && !IsNumber(rows_[r][c])) is_right[c] = false;
    }
  }
  std::string text;
  for (const std::vector<std::string>& row : rows_) {
    std::string line(indent, ' ');
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string padding(widths[c] - WidthOf(row[c]), ' ');
      line += is_right[c] ? padding + row[c] : row[c] + padding;
      if (c + 1 < row.size()) line += "  ";
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string WrapText(const std::string& text, const std::string& bullet) {
  std::istringstream words(text);
  std::string result, line = bullet, word;
  bool is_empty = true;
  while (words >> word) {
    if (!is_empty && line.size() + 1 + word.size() > kLineWidth) {
      result += line + "\n";
      line.assign(bullet.size(), ' ');
      is_empty = true;
    }
    if (!is_empty) line += ' ';
    line += word;
    is_empty = false;
  }
  return result + line + "\n";
}

}  // namespace tessera::planner
