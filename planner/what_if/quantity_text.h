// Quantities as people type them: "15T" tokens, "60d", "$5M", "400Gb/s", "2x".
#pragma once

#include <string>

namespace tessera::planner {

// All throw base::ConfigError naming `flag`, what was found and what was expected. None takes a
// negative number, infinity or what is not a number.

// A number with an optional suffix k, M, B (or G), T: thousands to million millions. Positive.
double ParseCount(const std::string& text, const std::string& flag);
// US dollars, such as "$5M" or "2.5". Zero is a price too.
double ParseDollars(const std::string& text, const std::string& flag);
// Seconds of "60d", "36h", "90min", "20s", "2w", "1y" (365 days). Positive.
double ParseDuration(const std::string& text, const std::string& flag);
// Bytes a second of "50GB/s" or "400Gb/s" (decimal prefixes k, M, G, T; b is bits). Positive.
double ParseBandwidth(const std::string& text, const std::string& flag);

// A number as it is, or, with an x behind it, how many times another.
struct Scaling {
  bool is_factor = false;
  double value = 0;
};
// "2x", or what `parse` makes of the text.
Scaling ParseScaling(const std::string& text, const std::string& flag,
                     double (*parse)(const std::string&, const std::string&));

}  // namespace tessera::planner
