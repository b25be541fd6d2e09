// A rank on a CPU: one address space, so host memory is device memory.
#pragma once

#include <memory>

#include "engine/device/rank_device.h"

namespace tessera::engine {

// What MakeRankDevice gives for DeviceKind::kCpu. Throws base::ConfigError for another CommKind
// than kThread.
std::unique_ptr<RankDevice> MakeCpuRankDevice(const DeviceOptions& options,
                                              Communicator& host_world);

}  // namespace tessera::engine
