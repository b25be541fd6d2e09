// Physical numbers in the units that people use.
#pragma once

#include <string>

namespace tessera::planner {

// What a number counts; its SI unit, or the unit that documents carry it in.
enum class Quantity {
  kCount,
  kShare,  // 0.5 is 50 %
  kSeconds,
  kDays,
  kDollars,
  kDeviceHours,
  kKilowattHours,
  kTokensPerSecond,
  kTflops,  // 1e12 FLOP/s
  kBytes,
  kBytesPerSecond,
  kFlopsPerSecond,
  kWatts,
  kPlain,
};

// Numbers are shown divided by `divisor`, followed by `unit`.
struct Scale {
  double divisor = 1;
  std::string unit;  // "M$", "GiB"; empty: none
};

// The scale that suits numbers of which `largest` is the largest.
Scale ScaleFor(Quantity quantity, double largest);

// Without its unit: about four significant digits, thousands in groups; "0" for 0.
std::string FormatScaled(double value, const Scale& scale);

// "48.3 days", "12.3 M$", "1.13 M tokens/s", "61.2 GiB".
std::string FormatQuantity(Quantity quantity, double value);

}  // namespace tessera::planner
