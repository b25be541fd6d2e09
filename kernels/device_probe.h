// Measures what a device of its own reaches in the kernels, for a cluster file.
#pragma once

#include <vector>

#include "cost_model/base/dtype.h"
#include "kernels/backend.h"
#include "kernels/machine_probe.h"

namespace tessera::kernels {

// How far to go. A test on a slow device keeps to small sizes and few repetitions.
struct DeviceProbeSizes {
  std::vector<int64_t> matmul = {256, 512, 1024, 2048, 4096, 8192};  // rows and columns
  std::vector<int64_t> attention = {512, 1024, 2048, 4096, 8192};    // sequence, of 16 heads of 128
  std::vector<int64_t> pass = {1 << 14, 1 << 18, 1 << 22, 1 << 26, 1 << 28};  // elements
  int num_repetitions = 10;  // of a size, after one to warm up
  int num_small_operations = 300;
};

// Rates of the whole device (num_threads 1) in numbers of `dtype`, the best of the repetitions by
// the device's own marks, on random numbers: products of square matrices; attention forward and
// backward, counting the causal half of 7 products; residual additions; and the time from one
// smallest operation to the next. The update's bandwidth is left at 0. Takes about a second and
// some GB at full size.
// REQUIRES: the backend has a workspace.
MachineProbe ProbeDevice(Backend& backend, base::DType dtype, const DeviceProbeSizes& sizes = {});

// Bytes a second and seconds of a copy between host and device, both ways after each other.
struct HostLinkProbe {
  double bandwidth_bytes_per_s = 0;
  double latency_s = 0;
};
HostLinkProbe ProbeHostLink(Backend& backend);

}  // namespace tessera::kernels
