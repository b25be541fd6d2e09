#pragma once

#include <atomic>

namespace tessera::engine {

// From now on SIGINT and SIGTERM set the returned flag instead of ending the process; a second one
// ends it. The one place with process-wide state: a signal handler can reach nothing else.
const std::atomic<bool>& CatchInterrupts();

}  // namespace tessera::engine
