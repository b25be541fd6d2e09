// How the processes of a run first meet: rank 0 has a few bytes (a name under which a communication
// library connects them), and every other rank gets them.
#pragma once

#include <string>

#include "engine/comm/launch_environment.h"

namespace tessera::engine {

// Returns rank 0's `message` on every rank. Collective over the processes, each of which calls it
// once. Throws base::CommError after `timeout_s` seconds, naming the ranks that have not come and
// the hosts of those that have, or where rank 0 was looked for in vain, and base::ConfigError for
// ranks that do not belong to one run.
std::string ShareFromRankZero(const ProcessRank& process, const MeetingPlace& place,
                              const std::string& message, double timeout_s);

}  // namespace tessera::engine
