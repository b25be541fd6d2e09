// Measures how fast the ranks of this machine talk: what a cluster file says of a link.
#pragma once

#include "engine/comm/communicator.h"
#include "kernels/backend.h"

namespace tessera::engine {

struct LinkProbe {
  int num_ranks = 0;
  double all_reduce_latency_s = 0;  // median time of a small all-reduce
  // Of a large all-reduce, per rank: 2 (n - 1) / n * bytes / median time, the rate at which each
  // rank of a ring would send ("bus bandwidth" in NCCL's tests).
  double bandwidth_bytes_per_s = 0;
};

// Collective over `comm`, whose memory is that of `backend` (null: host memory). Takes well under a
// second a rank pair; buffers of up to 32 MiB a rank on a host, of `num_device_elements` on a
// device.
LinkProbe ProbeLinks(Communicator& comm, kernels::Backend* backend = nullptr,
                     int64_t num_device_elements = int64_t{64} << 20);

// The same among `num_ranks` ranks that are threads of this process. Takes under 2 s.
// REQUIRES: num_ranks >= 2.
LinkProbe ProbeThreadLinks(int num_ranks);

}  // namespace tessera::engine
