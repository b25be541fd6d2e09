// Builds without Gloo.
#include "cost_model/base/error.h"
#include "engine/comm/process_world.h"

namespace tessera::engine {

bool HasProcessWorld() { return false; }

std::unique_ptr<Communicator> JoinProcessWorld(const ProcessRank& /*process*/,
                                               const MeetingPlace& /*place*/,
                                               const ProcessWorldOptions& /*options*/) {
  throw base::ConfigError("--comm", "", "gloo",
                          "thread: this is a build without Gloo (package libgloo-dev)");
}

}  // namespace tessera::engine
