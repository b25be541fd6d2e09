// Runs the ranks of a test over each communicator backend: threads that share memory, and threads
// that stand for processes, as they share nothing but a port to meet at.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "engine/comm/communicator.h"
#include "engine/comm/process_world.h"
#include "tests/testing/run_ranks.h"

namespace tessera::testing {

// kShared and kTcp: processes over either link of one host.
enum class CommBackend { kThread, kShared, kTcp };

struct CommOptions {
  double timeout_s = kTestTimeoutSeconds;
  bool rendezvous_sends = false;  // of kThread; those of kTcp always are, of kShared never
  bool checks_calls = true;       // of processes; kThread always does
  std::string record_folder;
};

// Runs `body` once per rank; what a rank throws comes out here.
void RunRanks(CommBackend backend, int num_ranks, const CommOptions& options,
              const std::function<void(engine::Communicator&)>& body);

// Tests over each backend that this build has.
class OnEachBackend : public ::testing::TestWithParam<CommBackend> {
 protected:
  void RunRanks(int num_ranks, const std::function<void(engine::Communicator&)>& body) const {
    testing::RunRanks(GetParam(), num_ranks, {}, body);
  }
  // The message of the base::CommError with which the world fails; "no failure" if it does not.
  std::string CommFailureOf(int num_ranks, const CommOptions& options,
                            const std::function<void(engine::Communicator&)>& body) const;
  bool has_processes() const { return GetParam() != CommBackend::kThread; }
  bool can_rendezvous() const { return GetParam() != CommBackend::kShared; }
  bool buffers_sends() const { return GetParam() != CommBackend::kTcp; }
};

inline std::vector<CommBackend> CommBackends() {
  if (!engine::HasProcessWorld()) return {CommBackend::kThread};
  return {CommBackend::kThread, CommBackend::kShared, CommBackend::kTcp};
}
inline std::string NameOfBackend(const ::testing::TestParamInfo<CommBackend>& info) {
  if (info.param == CommBackend::kThread) return "Thread";
  return info.param == CommBackend::kShared ? "SharedMemory" : "Tcp";
}

}  // namespace tessera::testing
