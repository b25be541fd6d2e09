// Ranks on CPUs: one address space, so host memory is device memory.
#include "cost_model/base/error.h"
#include "engine/device/rank_device.h"

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

bool HasDevice(DeviceKind device) { return device == DeviceKind::kCpu; }

std::unique_ptr<RankDevice> MakeRankDevice(const DeviceOptions& options, Communicator& host_world) {
  if (!HasDevice(options.device)) {
    throw base::ConfigError("--device", "", std::string(ToString(options.device)),
                            "cpu: this executable was built for CPUs only");
  }
  if (options.comm != CommKind::kThread) {
    throw base::ConfigError("--comm", "", std::string(ToString(options.comm)),
                            "thread: ranks on CPUs are threads of one process");
  }
  return std::make_unique<CpuRankDevice>(options.threads_per_rank, host_world);
}

}  // namespace tessera::engine
