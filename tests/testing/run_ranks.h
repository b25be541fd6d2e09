// Runs the ranks of a test as threads.
#pragma once

#include <functional>
#include <string>

#include "cost_model/base/error.h"
#include "engine/comm/communicator.h"
#include "engine/comm/thread_world.h"

namespace tessera::testing {

// Long enough for a busy machine, short enough for a hang to end as a failing test.
inline constexpr double kTestTimeoutSeconds = 60;

// Runs `body` once per rank; what a rank throws comes out here.
inline void RunRanks(int num_ranks, const std::function<void(engine::Communicator&)>& body) {
  engine::RunThreadRanks(num_ranks, {.timeout_s = kTestTimeoutSeconds}, body);
}

// The message of the base::CommError with which the world fails; "no failure" if it does not.
inline std::string CommFailureOf(int num_ranks, const engine::ThreadWorldOptions& options,
                                 const std::function<void(engine::Communicator&)>& body) {
  try {
    engine::RunThreadRanks(num_ranks, options, body);
  } catch (const base::CommError& error) {
    return error.what();
  }
  return "no failure";
}

}  // namespace tessera::testing
