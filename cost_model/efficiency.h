#pragma once

#include "cost_model/spec/cluster_spec.h"

namespace tessera::cost_model {

// Share of the peak reached at `size` (in the table's own measure): linear in log(size) between the
// points, constant outside them, 1 for an empty table.
// REQUIRES: sizes are positive and ascend.
double EfficiencyAt(const spec::EfficiencyTable& table, double size);

}  // namespace tessera::cost_model
