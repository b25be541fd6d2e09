#include "cost_model/spec/device_peak.h"

#include <string>

#include "cost_model/base/error.h"

namespace tessera::spec {

double MatMulPeakFlopsPerS(const ClusterSpec& cluster, Precision precision) {
  const base::DType matmul = TypesOf(precision).matmul;
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

double PeakFlopsPerDevice(const ClusterSpec& cluster, Precision precision, int num_devices) {
  const double peak = MatMulPeakFlopsPerS(cluster, precision);
  if (cluster.shared_compute_units == 0) return peak;
  return peak * cluster.shared_compute_units / num_devices;
}

}  // namespace tessera::spec
