// Whether the links and collectives of a job give right results, and how fast: what a cluster file
// promises held against what is there.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cost_model/base/op.h"
#include "cost_model/spec/cluster_spec.h"
#include "engine/device/rank_device.h"

namespace tessera::engine {

// One operation of all ranks.
struct CollectiveCheck {
  base::OpKind kind = base::OpKind::kAllReduce;  // kSend: each rank to the next, all at once
  // Of a large one, what each rank of a ring sends in a second ("bus bandwidth" of NCCL's tests),
  // of the slowest rank's median.
  double bandwidth_bytes_per_s = 0;
  double latency_s = 0;  // median of a small one
  // What the cluster file says; 0: there is none.
  double expected_bandwidth_bytes_per_s = 0;
  double expected_latency_s = 0;
  std::string wrong;  // the first wrong element that a rank got, "" where all are right
};

// Messages between two ranks while all others are silent.
struct PairCheck {
  int first = 0;
  int second = 0;
  double bandwidth_bytes_per_s = 0;
  double latency_s = 0;
};

struct LinkCheck {
  int num_ranks = 0;
  std::vector<CollectiveCheck> collectives;
  std::vector<PairCheck> pairs;               // all, of many ranks only neighbours
  double expected_bandwidth_bytes_per_s = 0;  // of a pair
  double expected_latency_s = 0;

  bool has_wrong() const;
};

struct LinkCheckSizes {
  int64_t large_elements = int64_t{4} << 20;  // fp32, of each rank's buffers
  int num_repetitions = 5;
};

// Collective over `host_world`, complete on every rank. Every element of every result is held
// against what known numbers give. REQUIRES: at least two ranks.
LinkCheck CheckLinks(RankDevice& device, Communicator& host_world,
                     const LinkCheckSizes& sizes = {});

// Runs the check: in a launcher's job on its ranks, else among `num_ranks` threads of this process
// (0: the GPUs of the host, or two ranks that share one; on CPUs the cores, at least two).
// `is_first`: whether this process is the one that tells.
LinkCheck CheckLinksOfJob(DeviceOptions options, int num_ranks, bool& is_first);

// Fills what the cluster says of the links that a ring of the checked ranks takes: those within a
// domain, or, where the ranks are more than that has devices, those between nodes.
void SetExpectations(const spec::ClusterSpec& cluster, LinkCheck& check);

}  // namespace tessera::engine
