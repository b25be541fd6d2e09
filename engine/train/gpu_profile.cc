#include "engine/train/gpu_profile.h"

#include <algorithm>

#include "cost_model/spec/workspace.h"
#include "engine/comm/thread_world.h"
#include "engine/train/machine_profile.h"

namespace tessera::engine {
namespace {

// Gives the backend its workspace for as long as this lives.
class Workspace {
 public:
  explicit Workspace(kernels::Backend& backend)
      : backend_(backend), memory_(backend.Allocate(spec::kGpuWorkspaceBytes)) {
    backend.AttachWorkspace(memory_, spec::kGpuWorkspaceBytes);
  }
  ~Workspace() { backend_.Free(memory_, spec::kGpuWorkspaceBytes); }
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

 private:
  kernels::Backend& backend_;
  void* memory_;
};

LinkProbe ProbeNcclLinks(int num_devices, int64_t num_elements) {
  LinkProbe probe;
  RunThreadRanks(num_devices, {}, [&](Communicator& world) {
    const auto device =
        MakeRankDevice({.device = DeviceKind::kCuda, .comm = CommKind::kNccl}, world);
    const Workspace workspace(device->backend());
    const LinkProbe mine = ProbeLinks(device->world(), &device->backend(), num_elements);
    if (world.rank() == 0) probe = mine;
  });
  return probe;
}

}  // namespace

GpuProbe ProbeGpus(const GpuProbeSizes& sizes) {
  GpuProbe probe;
  RunThreadRanks(1, {}, [&](Communicator& world) {
    const auto device =
        MakeRankDevice({.device = DeviceKind::kCuda, .comm = CommKind::kThread}, world);
    probe.info = device->Info();
    const Workspace workspace(device->backend());
    probe.bf16 = ProbeDevice(device->backend(), base::DType::kBFloat16, sizes.kernels);
    probe.fp32 = ProbeDevice(device->backend(), base::DType::kFloat32,
                             {.matmul = sizes.kernels.matmul,
                              .attention = {},
                              .pass = {},
                              .num_repetitions = std::min(3, sizes.kernels.num_repetitions),
                              .num_small_operations = 1});
    probe.host_link = ProbeHostLink(device->backend());
  });
  if (probe.info.num_devices > 1) {
    probe.link = ProbeNcclLinks(probe.info.num_devices, sizes.num_link_elements);
  }
  return probe;
}

spec::ClusterSpec DescribeGpus(const std::string& name, const GpuProbe& probe) {
  const double peak =
      std::max(BestRate(probe.bf16.matmul_flops_per_s), BestRate(probe.bf16.attention_flops_per_s));
  const double bandwidth_bytes_per_s = BestRate(probe.bf16.pass_bytes_per_s);
  spec::ClusterSpec cluster{.name = name};
  cluster.device = {
      .name = probe.info.name,
      .memory_bytes = probe.info.memory_bytes,
      .reserved_memory_bytes = probe.info.used_bytes,
      .memory_bandwidth_bytes_per_s = bandwidth_bytes_per_s,
      .peak_flops_per_s = {{base::DType::kFloat32, BestRate(probe.fp32.matmul_flops_per_s)},
                           {base::DType::kBFloat16, peak},
                           {base::DType::kFloat16, peak}},
      .launch_overhead_s = probe.bf16.op_overhead_s,
      .matmul_efficiency = TableOf(probe.bf16.matmul_flops_per_s, peak),
      .attention_efficiency = TableOf(probe.bf16.attention_flops_per_s, peak),
      .memory_efficiency = TableOf(probe.bf16.pass_bytes_per_s, bandwidth_bytes_per_s)};
  const bool has_link = probe.link.num_ranks > 1;
  const int num_steps = 2 * (probe.link.num_ranks - 1);  // of a ring's all-reduce
  cluster.devices_per_node = probe.info.num_devices;
  cluster.intra_node = {.bandwidth_bytes_per_s = has_link ? probe.link.bandwidth_bytes_per_s
                                                          : probe.host_link.bandwidth_bytes_per_s,
                        .latency_s = has_link ? probe.link.all_reduce_latency_s / num_steps
                                              : probe.host_link.latency_s};
  cluster.inter_node = cluster.intra_node;

  const auto measured = [&](const std::string& key, const std::string& how) {
    cluster.sources[key] = {.tag = "measured", .text = how};
  };
  measured("/device/memory_bytes", "as the driver tells it");
  measured("/device/reserved_memory_bytes", "in use when the backend had started");
  measured("/device/memory_bandwidth_bytes_per_s", "best residual addition in bf16, cached or not");
  measured("/device/peak_flops_per_s/fp32", "best square product, without TF32");
  measured("/device/peak_flops_per_s/bf16", "best square product or attention, random numbers");
  cluster.sources["/device/peak_flops_per_s/fp16"] = {.tag = "assumed", .text = "as bf16"};
  measured("/device/launch_overhead_s", "from one smallest operation to the next");
  measured("/device/matmul_efficiency_by_flops", "square products in bf16");
  measured("/device/attention_efficiency_by_flops", "forward and backward, 16 heads of 128");
  measured("/device/memory_efficiency_by_bytes", "residual additions in bf16");
  const std::string link =
      has_link ? base::Concat("all-reduce by NCCL between ", probe.link.num_ranks, " GPUs")
               : std::string("copies to the device and back: ranks that share the GPU");
  measured("/intra_node/bandwidth_bytes_per_s", link);
  measured("/intra_node/latency_s", link);
  for (const char* key : {"/inter_node/bandwidth_bytes_per_s", "/inter_node/latency_s"}) {
    cluster.sources[key] = {.tag = "assumed", .text = "as within the host: no other was seen"};
  }
  return cluster;
}

}  // namespace tessera::engine
