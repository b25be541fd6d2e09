// The `gloo` backend: ranks are processes, on one host or many, that talk over TCP, and through
// shared memory where all ranks of a group are on one host.
//
// Two files define these functions; CMake picks gloo_communicator.cc where Gloo is installed,
// and no_process_world.cc elsewhere.
#pragma once

#include <memory>
#include <string>

#include "engine/comm/communicator.h"
#include "engine/comm/host_link.h"
#include "engine/comm/launch_environment.h"

namespace tessera::engine {

struct ProcessWorldOptions {
  double init_timeout_s = 60;  // until all ranks have met and connected
  double timeout_s = 600;      // of an operation, from when a rank begins to wait in it
  // Compare what the ranks call before each operation, which costs a round of messages; without it
  // different calls come out when they time out.
  bool checks_calls = false;
  std::string interface;  // of the network; "" for the one by which rank 0 is reached
  HostLink host_link = HostLink::kShared;
  // Where a failed run's ranks write their last operations; nothing for nowhere.
  std::string record_folder;
};

// Whether this build has Gloo.
bool HasProcessWorld();

// Collective over the processes of a launcher, which meet at `place`. The communicator is this
// rank's; splits of it must go before it. When it goes it waits for the other ranks to finish as
// well, unless the run has failed. Ignores SIGPIPE in the process from now on. Throws
// base::CommError naming who has not come, base::ConfigError in a build without Gloo.
std::unique_ptr<Communicator> JoinProcessWorld(const ProcessRank& process,
                                               const MeetingPlace& place,
                                               const ProcessWorldOptions& options);

}  // namespace tessera::engine
