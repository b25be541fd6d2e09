// Communicator handles: which are alive, and their errors.
#pragma once

#include <nccl.h>

#include <memory>
#include <string>

#include "tests/cuda_emulation/nccl/clique.h"

// What a handle points to.
struct ncclComm {
  std::shared_ptr<tessera::cuda_emulation::nccl::RankState> rank;
};

namespace tessera::cuda_emulation::nccl {

// A handle for a rank of a clique, entered into the clique.
ncclComm_t MakeHandle(std::shared_ptr<RankState> rank);

// The rank behind a handle; null where the handle is null or was destroyed.
std::shared_ptr<RankState> RankOf(ncclComm_t handle);

// Keeps and prints what went wrong, and returns `result`. `rank` may be null. Not with the clique's
// mutex held.
ncclResult_t RefuseCall(ncclResult_t result, RankState* rank, const std::string& reason);

}  // namespace tessera::cuda_emulation::nccl
