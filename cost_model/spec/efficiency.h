#pragma once

#include "cost_model/spec/cluster_spec.h"

namespace tessera::spec {

// Share of the peak reached at `size` (in the table's own measure): linear in log(size) between the
// points, constant outside them, 1 for an empty table.
// REQUIRES: sizes are positive and ascend.
double EfficiencyAt(const EfficiencyTable& table, double size);

}  // namespace tessera::spec
