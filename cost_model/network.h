// Where the ranks of a group sit on the two-level network, worked out from strides alone: ranks of
// the world fill the nodes in order.
#pragma once

#include <cstdint>

#include "cost_model/spec/cluster_spec.h"
#include "cost_model/spec/parallel_spec.h"

namespace tessera::cost_model {

// Ranks r0, r0 + stride, r0 + 2 * stride, ...
struct RankGroup {
  int size = 1;
  int64_t stride = 1;
};

// Groups of a layout, by its rank order.
struct LayoutGroups {
  RankGroup tensor;
  RankGroup context;
  RankGroup expert;         // ranks that hold the experts of a layer between them
  RankGroup expert_tensor;  // ranks that share the matrices of the same experts
  RankGroup data;
  RankGroup gradient;     // data and context together
  RankGroup expert_data;  // ranks that hold the same experts
  // Ranks that shard state between them, and the holders of the same shard; the same for experts.
  RankGroup shard;
  RankGroup shard_replica;
  RankGroup expert_shard;
  RankGroup expert_shard_replica;
  RankGroup pipeline;
};
LayoutGroups MakeLayoutGroups(const spec::ParallelSpec& parallel);

// How a group meets the nodes. Where its ranks do not fill nodes evenly, the fullest node counts.
struct GroupPlacement {
  int size = 1;
  int ranks_per_node = 1;
  int num_nodes = 1;
  // Groups of the same axis that cross the nodes at the same time and share a node's NICs: each
  // rank of a node belongs to one of them.
  int groups_per_node = 1;
};
// `world_size` ranks in all. On a shared pool all ranks sit on one node.
GroupPlacement PlaceGroup(const RankGroup& group, int world_size, const spec::ClusterSpec& cluster);

// Whether any pipeline has its stages `stage` and `stage` + 1 on different nodes.
bool CrossesNodes(const RankGroup& pipeline, int stage, int world_size,
                  const spec::ClusterSpec& cluster);

// Bytes per second that one of `num_senders` ranks of a node reaches towards other nodes when all
// of them send: the node's NICs shared out, at large-message efficiency.
double InterNodeBandwidth(const spec::ClusterSpec& cluster, int num_senders);

// Bandwidth between two ranks of a node. On a shared pool a transfer is a copy in memory, whose
// bandwidth those of the `ranks_on_node` ranks share that run at the same time.
double IntraNodeBandwidth(const spec::ClusterSpec& cluster, int ranks_on_node);

}  // namespace tessera::cost_model
