// Executables that know CPUs alone.
#include "cost_model/base/error.h"
#include "engine/device/cpu_rank_device.h"

namespace tessera::engine {

bool HasDevice(DeviceKind device) { return device == DeviceKind::kCpu; }

std::unique_ptr<RankDevice> MakeRankDevice(const DeviceOptions& options, Communicator& host_world) {
  if (!HasDevice(options.device)) {
    throw base::ConfigError("--device", "", std::string(ToString(options.device)),
                            "cpu: this executable was built for CPUs only");
  }
  return MakeCpuRankDevice(options, host_world);
}

ProcessDevice JoinProcesses(const DeviceOptions& options, const ProcessRank& process,
                            const MeetingPlace& /*place*/) {
  CheckProcesses(options, process);
  throw base::ConfigError(process.launcher, "",
                          base::Concat("rank ", process.rank, " of ", process.num_ranks),
                          "one process: this executable runs its ranks as threads");
}

}  // namespace tessera::engine
