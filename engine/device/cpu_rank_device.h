// A rank on a CPU: one address space, so host memory is device memory.
#pragma once

#include <memory>

#include "engine/comm/process_world.h"
#include "engine/device/rank_device.h"

namespace tessera::engine {

// What MakeRankDevice gives for DeviceKind::kCpu. Throws base::ConfigError for CommKind::kNccl.
std::unique_ptr<RankDevice> MakeCpuRankDevice(const DeviceOptions& options,
                                              Communicator& host_world);

// The host world of ranks that are processes and talk by Gloo. Collective over them.
std::unique_ptr<Communicator> JoinHostWorld(const DeviceOptions& options,
                                            const ProcessRank& process, const MeetingPlace& place);
// What JoinProcesses gives for DeviceKind::kCpu.
ProcessDevice JoinCpuProcesses(const DeviceOptions& options, const ProcessRank& process,
                               const MeetingPlace& place);

}  // namespace tessera::engine
