// The GPUs of this host as a cluster file describes them, from measurements.
#pragma once

#include <string>

#include "cost_model/spec/cluster_spec.h"
#include "engine/comm/link_probe.h"
#include "engine/device/rank_device.h"
#include "kernels/device_probe.h"

namespace tessera::engine {

// Several GPUs are linked by what NCCL reaches between them; `link.num_ranks` below two says that
// there is one GPU, and ranks that share it talk through the host.
struct GpuProbe {
  DeviceInfo info;
  kernels::MachineProbe bf16, fp32;
  kernels::HostLinkProbe host_link;
  LinkProbe link;
};

struct GpuProbeSizes {
  kernels::DeviceProbeSizes kernels;
  int64_t num_link_elements = int64_t{64} << 20;  // fp32, of a large all-reduce
};

// Measures the first GPU and the links. Throws base::ConfigError where this executable has no such
// device. Takes some seconds.
GpuProbe ProbeGpus(const GpuProbeSizes& sizes = {});

// Peaks are the best measured product or attention of each type; fp16 is taken to be as fast as
// bf16.
spec::ClusterSpec DescribeGpus(const std::string& name, const GpuProbe& probe);

}  // namespace tessera::engine
