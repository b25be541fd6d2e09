#include "engine/device/cpu_rank_device.h"

#include <utility>

#include "cost_model/base/error.h"

namespace tessera::engine {
namespace {

class CpuRankDevice final : public RankDevice {
 public:
  CpuRankDevice(int num_threads, Communicator& host_world)
      : backend_(kernels::MakeCpuBackend(num_threads)), world_(host_world) {}
  kernels::Backend& backend() override { return *backend_; }
  Communicator& world() override { return world_; }

 private:
  std::unique_ptr<kernels::Backend> backend_;
  Communicator& world_;
};

}  // namespace

std::unique_ptr<RankDevice> MakeCpuRankDevice(const DeviceOptions& options,
                                              Communicator& host_world) {
  if (options.comm == CommKind::kNccl) {
    throw base::ConfigError("--comm", "", std::string(ToString(options.comm)),
                            "thread or gloo: ranks on CPUs have no use for NCCL");
  }
  return std::make_unique<CpuRankDevice>(options.threads_per_rank, host_world);
}

std::unique_ptr<Communicator> JoinHostWorld(const DeviceOptions& options,
                                            const ProcessRank& process, const MeetingPlace& place) {
  return JoinProcessWorld(process, place,
                          {.init_timeout_s = options.init_timeout_s,
                           .timeout_s = options.timeout_s,
                           .checks_calls = options.checks_calls,
                           .interface = options.interface,
                           .host_link = options.host_link,
                           .record_folder = options.record_folder});
}

ProcessDevice JoinCpuProcesses(const DeviceOptions& options, const ProcessRank& process,
                               const MeetingPlace& place) {
  ProcessDevice joined;
  auto host_world = JoinHostWorld(options, process, place);
  joined.device = std::make_unique<CpuRankDevice>(options.threads_per_rank, *host_world);
  joined.host_world = std::move(host_world);
  return joined;
}

}  // namespace tessera::engine
