#pragma once

#include <string>

#include "engine/train/link_check.h"

namespace tessera::engine {

// The check as one JSON object: `num_ranks`, `least_share`, `collectives` and `pairs`, each with
// bandwidth and latency, what the cluster file says of them and the share of its bandwidth that was
// reached (null without a file), `is_slow` where that is below `least_share`, and of collectives
// `wrong` (null where all results are right).
std::string WriteLinkCheck(const LinkCheck& check, double least_share);

}  // namespace tessera::engine
