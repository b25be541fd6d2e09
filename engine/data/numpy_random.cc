#include "engine/data/numpy_random.h"

#include <bit>
#include <limits>
#include <utility>

#include "cost_model/base/check.h"

namespace tessera::engine {

uint32_t NumpyRandomState::UpTo(uint32_t highest) {
  const uint32_t mask = std::numeric_limits<uint32_t>::max() >> std::countl_zero(highest);
  uint32_t value = 0;
  do {
    value = static_cast<uint32_t>(engine_()) & mask;
  } while (value > highest);
  return value;
}

void NumpyRandomState::Shuffle(std::span<uint32_t> values) {
  if (values.empty()) return;
  TESSERA_CHECK(values.size() - 1 <= std::numeric_limits<uint32_t>::max(), values.size(),
                " elements");
  for (auto i = static_cast<uint32_t>(values.size() - 1); i >= 1; --i) {
    std::swap(values[i], values[UpTo(i)]);
  }
}

}  // namespace tessera::engine
