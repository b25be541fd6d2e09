#pragma once

#include <string>
#include <vector>

#include "cost_model/spec/rank_layout.h"
#include "cost_model/spec/timeline.h"
#include "engine/comm/communicator.h"

namespace tessera::engine {

// Writes the last step of every rank in Chrome's trace event form (chrome://tracing, Perfetto): a
// process for each rank, an event for each action. Collective; the first rank writes the file.
// Times are from the start of each rank's schedule.
void WriteTrace(const std::vector<spec::TimedAction>& timeline, const spec::RankCoord& coord,
                Communicator& world, const std::string& path);

}  // namespace tessera::engine
