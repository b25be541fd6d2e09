// The `thread` backend: ranks are threads of one process and share its memory.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "engine/comm/communicator.h"

namespace tessera::engine {

struct ThreadWorldOptions {
  double timeout_s = 600;
  // A send blocks until its receive is posted, as NCCL's may: what tests use to show that an order
  // of sends and receives never deadlocks. Otherwise a send returns at once from a buffered copy.
  bool rendezvous_sends = false;
  // Where the ranks of a failed run write their last operations; nothing for nowhere.
  std::string record_folder;
};

// Runs body(world communicator) once per rank, each on a thread of its own, and joins them. When a
// rank throws, its world is aborted, and the first exception (by time) is rethrown here.
void RunThreadRanks(int num_ranks, const ThreadWorldOptions& options,
                    const std::function<void(Communicator& world)>& body);

}  // namespace tessera::engine
