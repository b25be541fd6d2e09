// What a complete set of calls does to the ranks' memory.
#pragma once

#include <vector>

#include "tests/cuda_emulation/nccl/call.h"

namespace tessera::cuda_emulation::nccl {

// Runs a collective: `calls[r]` is rank r's. Buffers may be in place.
void RunCollective(const std::vector<NcclCall>& calls);

// Copies from a send to its receive.
void RunTransfer(const NcclCall& send, const NcclCall& receive);

}  // namespace tessera::cuda_emulation::nccl
