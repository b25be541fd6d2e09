// Executables that know CUDA as well as CPUs.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "cost_model/base/check.h"
#include "cost_model/base/error.h"
#include "engine/comm/nccl_communicator.h"
#include "engine/comm/rendezvous.h"
#include "engine/comm/staged_communicator.h"
#include "engine/device/cpu_rank_device.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/op_ranges.h"

namespace tessera::engine {
namespace {

using kernels::cuda::CudaBackend;

int NumDevicesOrThrow() {
  const int num_devices = kernels::cuda::NumDevices();
  if (num_devices > 0) return num_devices;
  throw base::ConfigError("--device", "", "cuda", "cpu: CUDA finds no GPU or no driver here");
}

// The GPU of a rank among threads of one process: its rank modulo the GPUs here.
int ChooseDevice(CommKind comm, const Communicator& host_world) {
  const int num_devices = NumDevicesOrThrow();
  if (comm == CommKind::kNccl && host_world.size() > num_devices) {
    throw base::ConfigError(
        "--comm", "", "nccl",
        base::Concat("thread, which lets ranks share a GPU: NCCL wants one for each rank, and ",
                     host_world.size(), " ranks have ", num_devices, " here"));
  }
  return host_world.rank() % num_devices;
}

DeviceInfo InfoOf(const CudaBackend& backend) {
  const kernels::cuda::DeviceMemoryUse memory = kernels::cuda::CurrentDeviceMemory();
  return {.name = kernels::cuda::DeviceName(backend.device()),
          .num_devices = kernels::cuda::NumDevices(),
          .memory_bytes = memory.total_bytes,
          .used_bytes = memory.used_bytes};
}

// A rank that shares its GPU with others, or has no NCCL: data goes through host memory.
class StagedCudaDevice : public RankDevice {
 public:
  StagedCudaDevice(const kernels::cuda::CudaBackendOptions& options, Communicator& host_world)
      : backend_(options), world_(Staging::kDeviceOverHost, backend_, host_world) {}
  kernels::Backend& backend() override { return backend_; }
  Communicator& world() override { return world_; }
  bool comm_blocks_host() const override { return true; }
  DeviceInfo Info() const override { return InfoOf(backend_); }
  base::OpObserver* op_ranges() override { return op_ranges_.get(); }

 private:
  CudaBackend backend_;
  std::unique_ptr<base::OpObserver> op_ranges_ = kernels::cuda::MakeOpRanges();
  StagedCommunicator world_;
};

class NcclCudaDevice final : public RankDevice {
 public:
  struct Place {
    int device = 0;
    int rank = 0;
    int num_ranks = 1;
    bool deterministic = false;
  };
  // Takes what can fail for this rank alone; the ranks that all have it then connect.
  NcclCudaDevice(const Place& place, double timeout_s, std::shared_ptr<NcclJob> job)
      : backend_({.device = place.device, .deterministic = place.deterministic}),
        nccl_({.rank = place.rank,
               .num_ranks = place.num_ranks,
               .device = place.device,
               .compute_stream = backend_.stream(),
               .timeout_s = timeout_s},
              std::move(job)) {
    // A failed collective ends the waits of the host early, and what they waited for is worth
    // nothing.
    backend_.set_failure_check([this] { nccl_.ThrowIfFailed("a wait for the GPU", "world"); });
    backend_.set_launch_hook([this] { nccl_.FollowLaunch(); });
  }
  // Collective over the ranks of `id`; nothing of NCCL bounds how long it waits for them.
  void Connect(const ncclUniqueId& id) { world_ = NcclCommunicator::MakeWorld(nccl_, id); }
  ~NcclCudaDevice() override {
    backend_.set_failure_check({});
    backend_.set_launch_hook({});
  }
  kernels::Backend& backend() override { return backend_; }
  Communicator& world() override { return *world_; }
  DeviceInfo Info() const override { return InfoOf(backend_); }
  base::OpObserver* op_ranges() override { return op_ranges_.get(); }

 private:
  CudaBackend backend_;
  NcclWorld nccl_;
  std::unique_ptr<Communicator> world_;
  std::unique_ptr<base::OpObserver> op_ranges_ = kernels::cuda::MakeOpRanges();
};

}  // namespace

bool HasDevice(DeviceKind /*device*/) { return true; }

std::unique_ptr<RankDevice> MakeRankDevice(const DeviceOptions& options, Communicator& host_world) {
  if (options.device == DeviceKind::kCpu) return MakeCpuRankDevice(options, host_world);
  const int device = ChooseDevice(options.comm, host_world);
  if (options.comm != CommKind::kNccl) {
    return std::make_unique<StagedCudaDevice>(
        kernels::cuda::CudaBackendOptions{.device = device, .deterministic = options.deterministic},
        host_world);
  }
  auto nccl_device = std::make_unique<NcclCudaDevice>(
      NcclCudaDevice::Place{device, host_world.rank(), host_world.size(), options.deterministic},
      options.timeout_s, ShareNcclJob(host_world));
  ncclUniqueId id = {};
  if (host_world.rank() == 0) id = NcclUniqueId();
  host_world.Broadcast(&id, sizeof(id), base::DType::kUInt8, 0);
  host_world.Barrier();  // every rank has its device
  nccl_device->Connect(id);
  return nccl_device;
}

ProcessDevice JoinProcesses(const DeviceOptions& options, const ProcessRank& process,
                            const MeetingPlace& place) {
  CheckProcesses(options, process);
  if (options.device == DeviceKind::kCpu) return JoinCpuProcesses(options, process, place);
  const int num_devices = NumDevicesOrThrow();
  if (options.comm == CommKind::kGloo) {
    ProcessDevice joined;
    auto host_world = JoinHostWorld(options, process, place);
    joined.device = std::make_unique<StagedCudaDevice>(
        kernels::cuda::CudaBackendOptions{
            .device = process.local_rank.value_or(process.rank) % num_devices,
            .deterministic = options.deterministic},
        *host_world);
    joined.host_world = std::move(host_world);
    return joined;
  }
  auto device = std::make_unique<NcclCudaDevice>(
      NcclCudaDevice::Place{process.local_rank.value_or(process.rank) % num_devices, process.rank,
                            process.num_ranks, options.deterministic},
      options.timeout_s, std::make_shared<NcclJob>());
  // A message of text carries the id's bytes.
  std::string message;
  if (process.rank == 0) {
    const ncclUniqueId own = NcclUniqueId();
    message.assign(own.internal, sizeof(own.internal));
  }
  message = ShareFromRankZero(process, place, message, options.init_timeout_s);
  ncclUniqueId id = {};
  TESSERA_CHECK(message.size() == sizeof(id.internal), "an id of ", message.size(), " bytes");
  std::copy(message.begin(), message.end(), id.internal);
  ProcessDevice joined;
  device->Connect(id);
  joined.device = std::move(device);
  joined.host_world = std::make_unique<StagedCommunicator>(
      Staging::kHostOverDevice, joined.device->backend(), joined.device->world());
  return joined;
}

}  // namespace tessera::engine
