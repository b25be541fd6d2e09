// Measures how fast the ranks of this machine talk: what a cluster file says of a link.
#pragma once

#include "engine/comm/communicator.h"

namespace tessera::engine {

struct LinkProbe {
  int num_ranks = 0;
  double all_reduce_latency_s = 0;  // median time of a small all-reduce
  // Of a large all-reduce, per rank: 2 (n - 1) / n * bytes / median time, the rate at which each
  // rank of a ring would send ("bus bandwidth" in NCCL's tests).
  double bandwidth_bytes_per_s = 0;
};

// Collective over `comm`. Takes well under a second a rank pair; buffers of up to 32 MiB a rank.
LinkProbe ProbeLinks(Communicator& comm);

// The same among `num_ranks` ranks that are threads of this process. Takes under 2 s.
// REQUIRES: num_ranks >= 2.
LinkProbe ProbeThreadLinks(int num_ranks);

}  // namespace tessera::engine
