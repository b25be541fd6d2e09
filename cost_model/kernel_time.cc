#include "cost_model/kernel_time.h"

#include "cost_model/spec/efficiency.h"

namespace tessera::cost_model {

double StreamSeconds(double bytes, const RankDevice& device) {
  if (bytes <= 0) return 0;
  return bytes /
         (device.memory_bandwidth_bytes_per_s * EfficiencyAt(device.memory_efficiency, bytes));
}

KernelTime StreamTime(double bytes, double num_kernels, const RankDevice& device) {
  if (num_kernels <= 0) return {};
  return {.device_s =
              num_kernels * (StreamSeconds(bytes / num_kernels, device) + device.launch_overhead_s),
          .num_kernels = num_kernels};
}

}  // namespace tessera::cost_model
