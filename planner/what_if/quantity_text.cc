#include "planner/what_if/quantity_text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>

#include "cost_model/base/error.h"

namespace tessera::planner {
namespace {

struct Suffix {
  std::string_view text;
  double factor;
};

constexpr double kDay = 86400;

// The number that starts the text, and what follows it. Absent: it starts with none.
struct LeadingNumber {
  double value = 0;
  std::string_view rest;
};
std::optional<LeadingNumber> SplitNumber(std::string_view text) {
  LeadingNumber number;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number.value);
  if (error != std::errc() || !std::isfinite(number.value) || number.value < 0) {
    return std::nullopt;
  }
  number.rest = text.substr(static_cast<size_t>(end - text.data()));
  return number;
}

template <size_t n>
std::optional<double> Parse(std::string_view text, const std::array<Suffix, n>& suffixes) {
  const std::optional<LeadingNumber> number = SplitNumber(text);
  if (!number) return std::nullopt;
  for (const Suffix& suffix : suffixes) {
    if (number->rest == suffix.text) return number->value * suffix.factor;
  }
  return std::nullopt;
}

constexpr std::array<Suffix, 9> kCounts = {{{"", 1},
                                            {"k", 1e3},
                                            {"K", 1e3},
                                            {"M", 1e6},
                                            {"B", 1e9},
                                            {"G", 1e9},
                                            {"T", 1e12},
                                            {"P", 1e15},
                                            {"bn", 1e9}}};

constexpr std::array<Suffix, 6> kDurations = {
    {{"s", 1}, {"min", 60}, {"h", 3600}, {"d", kDay}, {"w", 7 * kDay}, {"y", 365 * kDay}}};

constexpr std::array<Suffix, 10> kBandwidths = {{{"B/s", 1},
                                                 {"kB/s", 1e3},
                                                 {"MB/s", 1e6},
                                                 {"GB/s", 1e9},
                                                 {"TB/s", 1e12},
                                                 {"kb/s", 1e3 / 8},
                                                 {"Mb/s", 1e6 / 8},
                                                 {"Gb/s", 1e9 / 8},
                                                 {"Tb/s", 1e12 / 8},
                                                 {"b/s", 1.0 / 8}}};

double Positive(std::optional<double> value, const std::string& text, const std::string& flag,
                const char* expected) {
  if (!value || *value <= 0) throw base::ConfigError(flag, "", text, expected);
  return *value;
}

}  // namespace

double ParseCount(const std::string& text, const std::string& flag) {
  return Positive(Parse(text, kCounts), text, flag,
                  "a positive number such as 15T, 300B, 2e12 or 1000");
}

double ParseDollars(const std::string& text, const std::string& flag) {
  const std::string_view number =
      text.starts_with('$') ? std::string_view(text).substr(1) : std::string_view(text);
  const std::optional<double> dollars = Parse(number, kCounts);
  if (!dollars) {
    throw base::ConfigError(flag, "", text, "US dollars such as 5M, $250k or 2.5, none below 0");
  }
  return *dollars;
}

double ParseDuration(const std::string& text, const std::string& flag) {
  return Positive(Parse(text, kDurations), text, flag,
                  "a time with its unit, such as 60d, 36h, 90min, 20s, 2w or 1y");
}

double ParseBandwidth(const std::string& text, const std::string& flag) {
  return Positive(Parse(text, kBandwidths), text, flag,
                  "a rate with its unit, such as 50GB/s or 400Gb/s");
}

Scaling ParseScaling(const std::string& text, const std::string& flag,
                     double (*parse)(const std::string&, const std::string&)) {
  const std::optional<LeadingNumber> number = SplitNumber(text);
  if (number && number->rest == "x" && number->value > 0) return {true, number->value};
  return {false, parse(text, flag)};
}

}  // namespace tessera::planner
