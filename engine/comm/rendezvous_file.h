// The meeting of rendezvous.h by way of files in a folder that all ranks see.
#pragma once

#include <string>

#include "engine/comm/launch_environment.h"
#include "engine/comm/tcp_socket.h"

namespace tessera::engine {

// Each rank leaves a number of its own and its host in FILE.RANK; rank 0 answers with all of them
// and its message in FILE. So what an earlier run left behind is not taken for an answer. Rank 0
// removes what was written once all have read it.
std::string ShareByFile(const ProcessRank& process, const std::string& file,
                        const std::string& message, Deadline deadline);

}  // namespace tessera::engine
