#include "cost_model/spec/efficiency.h"

#include <algorithm>
#include <cmath>

namespace tessera::spec {

double EfficiencyAt(const EfficiencyTable& table, double size) {
  if (table.empty()) return 1;
  if (size <= table.front().size) return table.front().efficiency;
  if (size >= table.back().size) return table.back().efficiency;
  const auto above =
      std::upper_bound(table.begin(), table.end(), size,
                       [](double value, const auto& point) { return value < point.size; });
  const auto below = above - 1;
  const double position = std::log(size / below->size) / std::log(above->size / below->size);
  return below->efficiency + position * (above->efficiency - below->efficiency);
}

}  // namespace tessera::spec
