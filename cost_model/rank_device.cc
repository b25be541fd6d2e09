#include "cost_model/rank_device.h"

#include <algorithm>

#include "cost_model/spec/device_peak.h"

namespace tessera::cost_model {
namespace {

// What large products of `type` reach: the sustained rate where the cluster gives one, else the
// peak, else `otherwise`.
double SustainedFlopsPerS(const spec::DeviceSpec& device, base::DType type, double otherwise) {
  if (device.kernels) {
    const auto& sustained = device.kernels->sustained_flops_per_s;
    if (const auto found = sustained.find(type); found != sustained.end()) return found->second;
  }
  const auto found = device.peak_flops_per_s.find(type);
  return found != device.peak_flops_per_s.end() ? found->second : otherwise;
}

}  // namespace

int RanksOnNode(const spec::ClusterSpec& cluster, int num_devices) {
  // A pool holds as many ranks as are asked for: they are threads of one machine.
  if (cluster.shared_compute_units > 0) return num_devices;
  return std::min(num_devices, cluster.devices_per_node);
}

int ThreadsPerRank(const spec::ClusterSpec& cluster, int ranks_on_node) {
  if (cluster.shared_compute_units == 0) return 1;
  return std::max(1, cluster.shared_compute_units / ranks_on_node);
}

RankDevice RankDevice::InActivationType() const {
  RankDevice device = *this;
  device.matmul_flops_per_s = activation_flops_per_s;
  device.matmul_element_bytes = element_bytes;
  return device;
}

RankDevice MakeRankDevice(const spec::ClusterSpec& cluster, spec::Precision precision,
                          int num_devices, const spec::RuntimeSpec& runtime) {
  const spec::DeviceSpec& device = cluster.device;
  const spec::PrecisionTypes types = spec::TypesOf(precision);
  const int threads = ThreadsPerRank(cluster, RanksOnNode(cluster, num_devices));
  const double bandwidth_share = cluster.shared_compute_units > 0
                                     ? static_cast<double>(threads) / cluster.shared_compute_units
                                     : 1;
  const double peak_flops_per_s = spec::MatMulPeakFlopsPerS(cluster, precision);
  RankDevice rank{
      .matmul_flops_per_s = SustainedFlopsPerS(device, types.matmul, peak_flops_per_s) * threads,
      .activation_flops_per_s =
          SustainedFlopsPerS(device, types.activation, peak_flops_per_s) * threads,
      .memory_bandwidth_bytes_per_s = device.memory_bandwidth_bytes_per_s * bandwidth_share,
      .launch_overhead_s = device.launch_overhead_s,
      .element_bytes = base::SizeBytes(types.activation),
      .matmul_element_bytes = base::SizeBytes(types.matmul),
      .matmul_efficiency = device.matmul_efficiency,
      .attention_efficiency = device.attention_efficiency,
      .memory_efficiency = device.memory_efficiency,
      .kernels = device.kernels,
      .runtime = runtime};
  if (device.kernels) {
    rank.host_s_per_kernel = device.kernels->host_s_per_kernel * runtime.host_time_factor;
    rank.host_s_per_collective = device.kernels->host_s_per_collective * runtime.host_time_factor;
  }
  return rank;
}

}  // namespace tessera::cost_model
