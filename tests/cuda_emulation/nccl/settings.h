// The switches of nccl_double.h, as the double reads them.
#pragma once

#include <nccl.h>

#include <cstdint>
#include <optional>
#include <string>

#include "tests/cuda_emulation/nccl/nccl_double.h"

namespace tessera::cuda_emulation {

struct NcclSettings {
  double timeout_s = 60;
  bool shared_devices = false;
  NcclReduction reduction = NcclReduction::kAscending;
  uint64_t seed = 0;
};
NcclSettings GetNcclSettings();

// The failure injected for this rank that has begun by operation `operation`.
std::optional<NcclFailure> FindNcclFailure(const std::string& communicator, int rank,
                                           int64_t operation);

}  // namespace tessera::cuda_emulation
