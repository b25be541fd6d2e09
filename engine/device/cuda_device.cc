// Executables that know CUDA as well as CPUs.
#include <unistd.h>

#include <array>
#include <vector>

#include "cost_model/base/error.h"
#include "engine/comm/nccl_communicator.h"
#include "engine/comm/staged_communicator.h"
#include "engine/device/cpu_rank_device.h"
#include "kernels/cuda/cuda_backend.h"

namespace tessera::engine {
namespace {

using kernels::cuda::CudaBackend;

// The ranks of this host, in the order of the world.
struct HostPlace {
  int local_rank = 0;
  int num_local_ranks = 0;
};

HostPlace PlaceOnHost(Communicator& host_world) {
  using HostName = std::array<char, 256>;
  HostName mine = {};
  gethostname(mine.data(), mine.size() - 1);
  std::vector<HostName> names(static_cast<size_t>(host_world.size()));
  host_world.AllGather(&mine, names.data(), sizeof(HostName), base::DType::kUInt8);
  HostPlace place;
  for (int rank = 0; rank < host_world.size(); ++rank) {
    if (names[static_cast<size_t>(rank)] != mine) continue;
    if (rank < host_world.rank()) ++place.local_rank;
    ++place.num_local_ranks;
  }
  return place;
}

// The GPU of this rank: its place among the ranks of its host, modulo the GPUs there.
int ChooseDevice(CommKind comm, Communicator& host_world) {
  const HostPlace place = PlaceOnHost(host_world);
  const int num_devices = kernels::cuda::NumDevices();
  if (num_devices == 0) {
    throw base::ConfigError("--device", "", "cuda", "cpu: CUDA finds no GPU or no driver here");
  }
  if (comm == CommKind::kNccl && place.num_local_ranks > num_devices) {
    throw base::ConfigError(
        "--comm", "", "nccl",
        base::Concat("thread, which lets ranks share a GPU: NCCL wants one for each rank, and ",
                     place.num_local_ranks, " ranks have ", num_devices, " here"));
  }
  return place.local_rank % num_devices;
}

DeviceInfo InfoOf(const CudaBackend& backend) {
  const kernels::cuda::DeviceMemoryUse memory = kernels::cuda::CurrentDeviceMemory();
  return {.name = kernels::cuda::DeviceName(backend.device()),
          .num_devices = kernels::cuda::NumDevices(),
          .memory_bytes = memory.total_bytes,
          .used_bytes = memory.used_bytes};
}

// A rank that shares its GPU with others, or has no NCCL: data goes through host memory.
class StagedCudaDevice final : public RankDevice {
 public:
  StagedCudaDevice(int device, Communicator& host_world)
      : backend_({.device = device}), world_(Staging::kDeviceOverHost, backend_, host_world) {}
  kernels::Backend& backend() override { return backend_; }
  Communicator& world() override { return world_; }
  DeviceInfo Info() const override { return InfoOf(backend_); }

 private:
  CudaBackend backend_;
  StagedCommunicator world_;
};

class NcclCudaDevice final : public RankDevice {
 public:
  NcclCudaDevice(int device, double timeout_s, Communicator& host_world)
      : backend_({.device = device}),
        nccl_({.rank = host_world.rank(),
               .num_ranks = host_world.size(),
               .device = device,
               .compute_stream = backend_.stream(),
               .timeout_s = timeout_s},
              ShareNcclJob(host_world)) {
    // A failed collective ends the waits of the host early, and what they waited for is worth
    // nothing.
    backend_.set_failure_check([this] { nccl_.ThrowIfFailed("a wait for the GPU", "world"); });
    ncclUniqueId id = {};
    if (host_world.rank() == 0) id = NcclUniqueId();
    host_world.Broadcast(&id, sizeof(id), base::DType::kUInt8, 0);
    world_ = NcclCommunicator::MakeWorld(nccl_, id);
  }
  ~NcclCudaDevice() override { backend_.set_failure_check({}); }
  kernels::Backend& backend() override { return backend_; }
  Communicator& world() override { return *world_; }
  DeviceInfo Info() const override { return InfoOf(backend_); }
  void BeginStep(int64_t step) override { nccl_.set_step(step); }

 private:
  CudaBackend backend_;
  NcclWorld nccl_;
  std::unique_ptr<Communicator> world_;
};

}  // namespace

bool HasDevice(DeviceKind /*device*/) { return true; }

std::unique_ptr<RankDevice> MakeRankDevice(const DeviceOptions& options, Communicator& host_world) {
  if (options.device == DeviceKind::kCpu) return MakeCpuRankDevice(options, host_world);
  const int device = ChooseDevice(options.comm, host_world);
  if (options.comm == CommKind::kThread) {
    return std::make_unique<StagedCudaDevice>(device, host_world);
  }
  return std::make_unique<NcclCudaDevice>(device, options.timeout_s, host_world);
}

}  // namespace tessera::engine
