#pragma once

#include <ostream>

#include "engine/train/layout_comparison.h"

namespace tessera::engine {

// A row for each kind of what was compared, and the first difference beyond the tolerance in a
// sentence.
void PrintComparison(const LayoutComparison& comparison, std::ostream& out);

}  // namespace tessera::engine
