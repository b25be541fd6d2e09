// Where the ranks of a group sit on the two-level network, and the bandwidth they find there. Ranks
// of the world fill the nodes in order. "Node" here is what intra-node links join: a host, or an
// NVLink domain of several hosts.
#pragma once

#include <cstdint>
#include <vector>

#include "cost_model/spec/cluster_spec.h"
#include "cost_model/spec/rank_layout.h"

namespace tessera::cost_model {

// Ranks r0, r0 + stride, r0 + 2 * stride, ...; where the rank order puts another axis inside the
// group, in blocks of `block_size` such ranks, `block_stride` apart.
struct RankGroup {
  int size = 1;
  int64_t stride = 1;
  int block_size = 0;  // 0: one block
  int64_t block_stride = 0;
  bool operator==(const RankGroup&) const = default;
};

// The group of rank 0 along `axis`; the others are it, moved. Takes every axis but kKvReplica.
RankGroup GroupAlong(const spec::RankLayout& layout, spec::Axis axis);

// Groups of a layout, by its rank order.
struct LayoutGroups {
  RankGroup tensor;
  RankGroup context;
  RankGroup expert;         // ranks that hold the experts of a layer between them
  RankGroup expert_tensor;  // ranks that share the matrices of the same experts
  RankGroup expert_data;    // holders of the same parts of the same experts
  RankGroup data;
  RankGroup gradient;       // data and context together
  RankGroup shard;          // that shard state between them, of the gradient group
  RankGroup shard_replica;  // holders of the same shard
  RankGroup expert_shard;   // the same two of the expert-data group
  RankGroup expert_shard_replica;
  RankGroup pipeline;
};
LayoutGroups MakeLayoutGroups(const spec::ParallelSpec& parallel);

// Ranks of a job of `world_size` that one node holds: all of them on a shared pool. A job on
// domains of several hosts takes as many devices of each, whole hosts, as divide it evenly, the way
// a scheduler with blocks of hosts hands them out: 64 of 72 for most.
int RanksPerNode(const spec::ClusterSpec& cluster, int world_size);

// How a group meets the nodes. Where its ranks do not fill nodes evenly: the most nodes that any
// group of its kind touches, its ranks shared out over them.
struct GroupPlacement {
  int size = 1;
  int ranks_per_node = 1;
  int num_nodes = 1;
  // Groups of the same kind that cross the nodes at the same time and share a node's NICs: each
  // rank of a node belongs to one of them.
  int groups_per_node = 1;
  // Of the num_nodes, those behind the same switches; num_nodes where nothing is oversubscribed.
  int nodes_per_pod = 1;
  bool operator==(const GroupPlacement&) const = default;
};
// `world_size` ranks in all.
GroupPlacement PlaceGroup(const RankGroup& group, int world_size, const spec::ClusterSpec& cluster);

// Whether any pipeline has its stages `stage` and `stage` + 1 in different blocks of `block_ranks`
// ranks, nodes or pods.
bool CrossesBlocks(const RankGroup& pipeline, int stage, int world_size, int64_t block_ranks);

// Everything about a job that its communication depends on.
struct Network {
  spec::ClusterSpec cluster;
  int world_size = 1;
  int ranks_on_node = 1;
  int64_t ranks_on_pod = 0;  // 0: one pod
  double node_nic_bytes_per_s = 0;
  double rank_nic_bytes_per_s = 0;  // the most that one rank can send
  double ranks_per_nic = 0;  // that have this NIC beside them alone; 0: any NIC serves any rank
  // Small-message protocols, after the one at full bandwidth and the links' latencies.
  std::vector<spec::ProtocolSpec> protocols;
  double straggler_share = 0;  // by which the slowest rank is slower than the mean one
};
Network MakeNetwork(const spec::ClusterSpec& cluster, int world_size);

// Bytes per second that one of `num_senders` ranks of a node reaches towards other nodes when all
// of them send: the node's NICs shared out, at most those that the rank can use.
double InterNodeBandwidth(const Network& network, int num_senders);

// What all ranks of a group on one node reach together, all groups of the kind sending.
double GroupNicBandwidth(const Network& network, const GroupPlacement& placement);

// Bandwidth between two ranks of a node. On a shared pool a transfer is a copy in memory, whose
// bandwidth those of the `ranks_on_node` ranks share that run at the same time.
double IntraNodeBandwidth(const spec::ClusterSpec& cluster, int ranks_on_node);

}  // namespace tessera::cost_model
