#include "cost_model/rank_device.h"

#include <algorithm>

#include "cost_model/spec/device_peak.h"

namespace tessera::cost_model {
int RanksOnNode(const spec::ClusterSpec& cluster, int num_devices) {
  // A pool holds as many ranks as are asked for: they are threads of one machine.
  if (cluster.shared_compute_units > 0) return num_devices;
  return std::min(num_devices, cluster.devices_per_node);
}

int ThreadsPerRank(const spec::ClusterSpec& cluster, int ranks_on_node) {
  if (cluster.shared_compute_units == 0) return 1;
  return std::max(1, cluster.shared_compute_units / ranks_on_node);
}

RankDevice MakeRankDevice(const spec::ClusterSpec& cluster, spec::Precision precision,
                          int num_devices) {
  const spec::DeviceSpec& device = cluster.device;
  const int threads = ThreadsPerRank(cluster, RanksOnNode(cluster, num_devices));
  const double bandwidth_share = cluster.shared_compute_units > 0
                                     ? static_cast<double>(threads) / cluster.shared_compute_units
                                     : 1;
  return {.matmul_flops_per_s = spec::MatMulPeakFlopsPerS(cluster, precision) * threads,
          .memory_bandwidth_bytes_per_s = device.memory_bandwidth_bytes_per_s * bandwidth_share,
          .launch_overhead_s = device.launch_overhead_s,
          .element_bytes = base::SizeBytes(spec::TypesOf(precision).activation),
          .matmul_efficiency = device.matmul_efficiency,
          .attention_efficiency = device.attention_efficiency,
          .memory_efficiency = device.memory_efficiency};
}

}  // namespace tessera::cost_model
