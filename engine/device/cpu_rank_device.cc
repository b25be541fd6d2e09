#include "engine/device/cpu_rank_device.h"

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
  if (options.comm != CommKind::kThread) {
    throw base::ConfigError("--comm", "", std::string(ToString(options.comm)),
                            "thread: ranks on CPUs are threads of one process");
  }
  return std::make_unique<CpuRankDevice>(options.threads_per_rank, host_world);
}

}  // namespace tessera::engine
