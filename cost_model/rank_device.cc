#include "cost_model/rank_device.h"

#include <algorithm>

#include "cost_model/base/error.h"

namespace tessera::cost_model {
namespace {

double PeakOf(const spec::ClusterSpec& cluster, spec::Precision precision) {
  const base::DType matmul = spec::TypesOf(precision).matmul;
  const auto found = cluster.device.peak_flops_per_s.find(matmul);
  if (found != cluster.device.peak_flops_per_s.end()) return found->second;
  std::string known;
  for (const auto& [dtype, peak] : cluster.device.peak_flops_per_s) {
    known += base::Concat(known.empty() ? "" : ", ", base::ToString(dtype));
  }
  throw base::ConfigError(base::Concat("cluster ", cluster.name), "device peaks",
                          base::Concat("no peak for ", base::ToString(matmul), " products"),
                          base::Concat("a precision that the device has (", known, ")"));
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

RankDevice MakeRankDevice(const spec::ClusterSpec& cluster, spec::Precision precision,
                          int num_devices) {
  const spec::DeviceSpec& device = cluster.device;
  const int threads = ThreadsPerRank(cluster, RanksOnNode(cluster, num_devices));
  const double bandwidth_share = cluster.shared_compute_units > 0
                                     ? static_cast<double>(threads) / cluster.shared_compute_units
                                     : 1;
  return {.matmul_flops_per_s = PeakOf(cluster, precision) * threads,
          .memory_bandwidth_bytes_per_s = device.memory_bandwidth_bytes_per_s * bandwidth_share,
          .launch_overhead_s = device.launch_overhead_s,
          .element_bytes = base::SizeBytes(spec::TypesOf(precision).activation),
          .matmul_efficiency = device.matmul_efficiency,
          .attention_efficiency = device.attention_efficiency,
          .memory_efficiency = device.memory_efficiency};
}

double PeakFlopsPerDevice(const spec::ClusterSpec& cluster, spec::Precision precision,
                          int num_devices) {
  const double peak = PeakOf(cluster, precision);
  if (cluster.shared_compute_units == 0) return peak;
  return peak * cluster.shared_compute_units / num_devices;
}

}  // namespace tessera::cost_model
