// Seconds of collectives and transfers. Each is priced for every algorithm and protocol that the
// cluster has, and the cheapest counts, as NCCL chooses: a latency for each message that waits for
// another, and the bytes over the slowest link that they cross.
#pragma once

#include "cost_model/base/op.h"
#include "cost_model/network.h"

namespace tessera::cost_model {

enum class CollectiveAlgorithm : uint8_t { kRing, kTree, kHierarchical, kNvls };

// An all-reduce of `bytes` by one algorithm; infinite where the cluster or the group has no such.
//
// kRing: 2 (g - 1) messages one after the other; 2 (g - 1) / g of the bytes over each link of a
//   node, and out of each node, whose NICs the rings share (Patarasuk and Yuan 2009). Links of both
//   levels work at the same time.
// kTree: two binary trees over the nodes, each for half of the bytes, chains within (Sanders et al.
//   2009): twice the depth in messages, twice the bytes over a link and out of a node.
// kHierarchical: reduce-scatter within each node, rings over the nodes, one for each local rank
//   with its 1 / ranks_per_node of the bytes, all-gather within; one level after the other.
// kNvls: the switches of a node add and spread: (1 + 1 / g) of the bytes over a device's link;
//   across nodes with the trees above.
double AllReduceSecondsBy(CollectiveAlgorithm algorithm, double bytes,
                          const GroupPlacement& placement, const Network& network);

// The cheapest of them. 0 for a group of one.
double AllReduceSeconds(double bytes, const GroupPlacement& placement, const Network& network);

// Reduce-scatter or all-gather of a tensor of `bytes` in all (input of the one, output of the
// other): half of an all-reduce by kRing, kHierarchical or kNvls.
double ReduceScatterSeconds(double bytes, const GroupPlacement& placement, const Network& network);
double AllGatherSeconds(double bytes, const GroupPlacement& placement, const Network& network);

// `bytes` from one rank to all others of the group, passed on in a ring piece by piece.
double BroadcastSeconds(double bytes, const GroupPlacement& placement, const Network& network);

// Every rank sends an equal part of its `bytes` to each other rank of the group; links inside the
// nodes and between them work at the same time. Of the bytes for other nodes `inter_node_share`
// crosses: the rest is copies that the node makes (CopiesShare).
double AllToAllSeconds(double bytes, const GroupPlacement& placement, const Network& network,
                       double inter_node_share = 1);

// Of `num_copies` of a token, each to a rank of one of `num_nodes` nodes, the share that remains
// with one to a node: n (1 - (1 - 1 / n)^k) / k for choices without preference.
double CopiesShare(int64_t num_copies, int num_nodes);

// Every rank sends `bytes` to the next one of its group, the last to the first.
double RingExchangeSeconds(double bytes, const GroupPlacement& placement, const Network& network);

// One transfer between two ranks of a node, or of two nodes while `num_senders` ranks of the node
// send; `crosses_pods`: through the oversubscribed part of the fabric.
double IntraNodeTransferSeconds(double bytes, const Network& network);
double InterNodeTransferSeconds(double bytes, int num_senders, const Network& network,
                                bool crosses_pods = false);

// A collective of an op list, its elements `element_bytes` each.
// REQUIRES: base::IsCommunication(record.kind), sends and receives apart.
double CollectiveSeconds(const base::OpRecord& record, double element_bytes,
                         const GroupPlacement& placement, const Network& network);

}  // namespace tessera::cost_model
