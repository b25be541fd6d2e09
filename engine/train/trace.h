#pragma once

#include <string>

#include "cost_model/spec/rank_layout.h"
#include "cost_model/spec/timeline.h"
#include "engine/comm/communicator.h"

namespace tessera::engine {

// Writes the last step of every rank as a trace file (see spec/trace_json.h), a process for each
// rank. Collective; the first rank writes the file, whole or not at all. Times are from the start
// of each rank's step.
void WriteTrace(const spec::RankTimeline& timeline, const spec::RankCoord& coord,
                Communicator& world, const std::string& path);

}  // namespace tessera::engine
