// Seconds of collectives and transfers by the alpha-beta model: a latency for each message and the
// bytes over the bandwidth of the slowest link that they cross.
#pragma once

#include "cost_model/base/op.h"
#include "cost_model/network.h"

namespace tessera::cost_model {

// Everything about a job that its communication depends on.
struct Network {
  spec::ClusterSpec cluster;
  int world_size = 1;
  int ranks_on_node = 1;
};
Network MakeNetwork(const spec::ClusterSpec& cluster, int world_size);

// Reduce-scatter or all-gather of a tensor of `bytes` in all (input of the one, output of the
// other). A ring inside a node: (g - 1) messages, (g - 1) / g of the bytes over each link
// (Thakur et al. 2005). Across nodes hierarchically: within each node first, then rings over the
// nodes, one for each local rank with its 1 / ranks_per_node of the bytes, at the same time and
// with the other groups of the node, sharing the NICs.
double ReduceScatterSeconds(double bytes, const GroupPlacement& placement, const Network& network);
double AllGatherSeconds(double bytes, const GroupPlacement& placement, const Network& network);

// A reduce-scatter followed by an all-gather.
double AllReduceSeconds(double bytes, const GroupPlacement& placement, const Network& network);

// Every rank sends an equal part of its `bytes` to each other rank of the group.
double AllToAllSeconds(double bytes, const GroupPlacement& placement, const Network& network);

// One transfer between two ranks of a node, or of two nodes while `num_senders` ranks of the node
// send.
double IntraNodeTransferSeconds(double bytes, const Network& network);
double InterNodeTransferSeconds(double bytes, int num_senders, const Network& network);

// A collective of an op list, its elements `element_bytes` each.
// REQUIRES: base::IsCommunication(record.kind), sends and receives apart.
double CollectiveSeconds(const base::OpRecord& record, double element_bytes,
                         const GroupPlacement& placement, const Network& network);

}  // namespace tessera::cost_model
