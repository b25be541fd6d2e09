#pragma once

#include <string>

#include "engine/train/layout_comparison.h"

namespace tessera::engine {

// The comparison as one JSON object: `same`, `tolerance`, `first_difference` (null where both train
// the same) with `what`, `of`, `deviation` (null: infinite), `index`, `a`, `b`, `ranks_a`,
// `ranks_b`, `num_replicas_apart`; and `kinds`, each with the number compared and the largest of
// its differences.
std::string WriteComparison(const LayoutComparison& comparison);

}  // namespace tessera::engine
