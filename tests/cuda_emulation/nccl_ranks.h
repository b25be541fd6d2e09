// Ranks of NCCL communicators for the tests of the NCCL double: one thread and one device each.
#pragma once

#include <nccl.h>

#include <memory>
#include <string>
#include <utility>

#include "tests/cuda_emulation/doubles_testing.h"
#include "tests/cuda_emulation/nccl/nccl_double.h"
#include "tests/cuda_emulation/runtime/device.h"

namespace tessera::cuda_emulation::testing {

// A rank's communicator over all ranks and a stream of its own.
class Rank {
 public:
  Rank(int num_ranks, const ncclUniqueId& id, int rank, const char* name) : rank_(rank) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 1;
    config.commName = name;
    EXPECT_EQ(ncclCommInitRankConfig(&comm_, num_ranks, id, rank, &config), ncclSuccess);
  }
  ~Rank() {
    if (comm_ != nullptr) ncclCommAbort(comm_);
  }
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  int rank() const { return rank_; }
  ncclComm_t comm() const { return comm_; }
  const TestStream& stream() const { return stream_; }
  std::string LastError() const { return ncclGetLastError(comm_); }
  // The communicator now belongs to the caller, who destroys it.
  ncclComm_t ReleaseComm() { return std::exchange(comm_, nullptr); }

 private:
  int rank_;
  ncclComm_t comm_ = nullptr;
  TestStream stream_;
};

// Runs `body` for each rank of a new communicator "world", on device `rank`. Afterwards devices
// that faults have failed are well again.
template <typename Body>
void RunCommunicator(int num_ranks, Body body) {
  struct Healing {
    ~Healing() { ResetDevices(); }
  } const healing;
  ncclUniqueId id;
  ASSERT_EQ(ncclGetUniqueId(&id), ncclSuccess);
  RunRanks(num_ranks, [&](int number) {
    ASSERT_EQ(cudaSetDevice(number), cudaSuccess);
    Rank rank(num_ranks, id, number, "world");
    body(rank);
  });
}

}  // namespace tessera::cuda_emulation::testing
