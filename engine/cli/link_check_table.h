#pragma once

#include <ostream>

#include "engine/train/link_check.h"

namespace tessera::engine {

// A row for each collective and pair of ranks: bandwidth and latency beside what the cluster file
// says, marked where less than `least_share` of its bandwidth is reached, or where results are
// wrong.
void PrintLinkCheck(const LinkCheck& check, double least_share, std::ostream& out);

}  // namespace tessera::engine
