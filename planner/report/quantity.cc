#include "planner/report/quantity.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "cost_model/base/check.h"
#include "planner/text_format.h"

namespace tessera::planner {
namespace {

// From the largest to the smallest; the last one serves all that is smaller.
std::vector<Scale> ScalesOf(Quantity quantity) {
  constexpr double kGiB = 1024.0 * 1024 * 1024;
  switch (quantity) {
    case Quantity::kShare:
      return {{0.01, "%"}};
    case Quantity::kSeconds:
      return {{86400, "days"}, {3600, "hours"}, {1, "s"}, {1e-3, "ms"}, {1e-6, "us"}};
    case Quantity::kDays:
      return {{1, "days"}, {1.0 / 24, "hours"}};
    case Quantity::kDollars:
      return {{1e6, "M$"}, {1e3, "k$"}, {1, "$"}};
    case Quantity::kDeviceHours:
      return {{1e6, "M GPU-hours"}, {1e3, "k GPU-hours"}, {1, "GPU-hours"}};
    case Quantity::kKilowattHours:
      return {{1e6, "GWh"}, {1e3, "MWh"}, {1, "kWh"}};
    case Quantity::kTokensPerSecond:
      return {{1e6, "M tokens/s"}, {1e3, "k tokens/s"}, {1, "tokens/s"}};
    case Quantity::kTflops:
      return {{1, "TFLOP/s"}};
    case Quantity::kBytes:
      return {{kGiB, "GiB"}, {kGiB / 1024, "MiB"}, {1024, "KiB"}, {1, "B"}};
    case Quantity::kBytesPerSecond:
      return {{1e12, "TB/s"}, {1e9, "GB/s"}, {1e6, "MB/s"}, {1, "B/s"}};
    case Quantity::kFlopsPerSecond:
      return {{1e15, "PFLOP/s"}, {1e12, "TFLOP/s"}, {1e9, "GFLOP/s"}, {1, "FLOP/s"}};
    case Quantity::kWatts:
      return {{1e6, "MW"}, {1e3, "kW"}, {1, "W"}};
    case Quantity::kCount:
    case Quantity::kPlain:
      return {{1, ""}};
  }
  return {{1, ""}};
}

}  // namespace

Scale ScaleFor(Quantity quantity, double largest) {
  std::vector<Scale> scales = ScalesOf(quantity);
  for (const Scale& scale : scales) {
    // Two days are days, 40 hours are hours.
    const double factor = quantity == Quantity::kSeconds && scale.divisor > 1 ? 2 : 1;
    if (std::abs(largest) >= factor * scale.divisor) return scale;
  }
  for (const Scale& scale : scales) {
    if (largest == 0 && scale.divisor == 1) return scale;
  }
  return scales.back();
}

std::string FormatScaled(double value, const Scale& scale) {
  const double scaled = value / scale.divisor;
  if (scaled == 0) return "0";
  if (!std::isfinite(scaled)) return scaled > 0 ? "no limit" : "unknown";
  const double size = std::abs(scaled);
  if (size >= 999.5) return FormatCount(std::llround(scaled));
  if (scaled == std::round(scaled)) return FormatFixed(scaled, 0);
  if (size < 1e-4) {
    return base::Concat(scaled);
  }
  const int digits_before = static_cast<int>(std::floor(std::log10(size))) + 1;
  return FormatFixed(scaled, std::clamp(3 - digits_before, 0, 6));
}

std::string FormatQuantity(Quantity quantity, double value) {
  const Scale scale = ScaleFor(quantity, value);
  const std::string text = FormatScaled(value, scale);
  return scale.unit.empty() ? text : text + " " + scale.unit;
}

}  // namespace tessera::planner
