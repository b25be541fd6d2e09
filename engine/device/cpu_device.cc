// Executables that know CPUs alone.
#include "cost_model/base/error.h"
#include "engine/device/cpu_rank_device.h"

namespace tessera::engine {

namespace {

void CheckDevice(const DeviceOptions& options) {
  if (HasDevice(options.device)) return;
  throw base::ConfigError("--device", "", std::string(ToString(options.device)),
                          "cpu: this executable was built for CPUs only");
}

}  // namespace

bool HasDevice(DeviceKind device) { return device == DeviceKind::kCpu; }

std::unique_ptr<RankDevice> MakeRankDevice(const DeviceOptions& options, Communicator& host_world) {
  CheckDevice(options);
  return MakeCpuRankDevice(options, host_world);
}

ProcessDevice JoinProcesses(const DeviceOptions& options, const ProcessRank& process,
                            const MeetingPlace& place) {
  CheckProcesses(options, process);
  CheckDevice(options);
  return JoinCpuProcesses(options, process, place);
}

}  // namespace tessera::engine
