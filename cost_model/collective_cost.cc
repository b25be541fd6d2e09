#include "cost_model/collective_cost.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "cost_model/base/check.h"
#include "cost_model/spec/efficiency.h"

namespace tessera::cost_model {
namespace {

constexpr double kImpossible = std::numeric_limits<double>::infinity();

// What a way of communicating asks of the two levels of the network.
struct Demand {
  double intra_messages = 0;  // one after the other
  double inter_messages = 0;
  double intra_s = 0;  // of the bytes at large-message bandwidth
  double inter_s = 0;
  bool is_serial = false;  // one level after the other, not both at once
};

// Bandwidth of the two levels, as a group finds it.
struct Bandwidth {
  double intra_bytes_per_s = 0;  // of a rank's link
  double inter_bytes_per_s = 0;  // of all ranks of the group on a node together
};

Bandwidth BandwidthOf(double bytes, const GroupPlacement& placement, const Network& network,
                      double pod_share) {
  Bandwidth bandwidth;
  bandwidth.intra_bytes_per_s = IntraNodeBandwidth(network.cluster, network.ranks_on_node) *
                                EfficiencyAt(network.cluster.intra_node.size_efficiency, bytes);
  if (placement.num_nodes == 1) return bandwidth;
  const int ranks = placement.ranks_per_node;
  bandwidth.inter_bytes_per_s =
      GroupNicBandwidth(network, placement) *
      EfficiencyAt(network.cluster.inter_node.size_efficiency, bytes / ranks);
  if (placement.num_nodes > placement.nodes_per_pod) {
    // `pod_share` of what the nodes of a pod send leaves it.
    bandwidth.inter_bytes_per_s /=
        std::max(1.0, network.cluster.fabric.oversubscription * pod_share);
  }
  return bandwidth;
}

// Of a ring's messages through the nodes of a pod one leaves it.
Bandwidth RingBandwidth(double bytes, const GroupPlacement& placement, const Network& network) {
  return BandwidthOf(bytes, placement, network, 1.0 / placement.nodes_per_pod);
}

// Seconds by the best protocol.
double SecondsOf(const Demand& demand, const Network& network) {
  const double bytes_s =
      demand.is_serial ? demand.intra_s + demand.inter_s : std::max(demand.intra_s, demand.inter_s);
  double least_s = kImpossible;
  for (const spec::ProtocolSpec& protocol : network.protocols) {
    least_s = std::min(least_s, demand.intra_messages * protocol.intra_node_latency_s +
                                    demand.inter_messages * protocol.inter_node_latency_s +
                                    bytes_s / protocol.bandwidth_share);
  }
  return network.cluster.collectives.overhead_s + least_s;
}

// A ring takes one `pass` for a reduce-scatter or an all-gather, two for both.
double RingSeconds(int passes, double bytes, const GroupPlacement& placement,
                   const Network& network) {
  const Bandwidth bandwidth = RingBandwidth(bytes, placement, network);
  const double size = placement.size;
  const double ring_bytes = passes * bytes * (size - 1) / size;
  Demand demand;
  const int nodes = placement.num_nodes;
  demand.inter_messages = passes * (nodes - 1);
  demand.intra_messages = passes * (size - 1) - demand.inter_messages;
  if (placement.ranks_per_node > 1) demand.intra_s = ring_bytes / bandwidth.intra_bytes_per_s;
  if (nodes > 1) demand.inter_s = ring_bytes / bandwidth.inter_bytes_per_s;
  return SecondsOf(demand, network);
}

double HierarchicalSeconds(int passes, double bytes, const GroupPlacement& placement,
                           const Network& network) {
  const double local = placement.ranks_per_node;
  const double nodes = placement.num_nodes;
  if (nodes == 1 || local == 1) return kImpossible;  // it is a ring
  if (!network.cluster.collectives.hierarchical) return kImpossible;
  const Bandwidth bandwidth = RingBandwidth(bytes, placement, network);
  return SecondsOf({.intra_messages = passes * (local - 1),
                    .inter_messages = passes * (nodes - 1),
                    .intra_s = passes * bytes * (local - 1) / local / bandwidth.intra_bytes_per_s,
                    .inter_s = passes * bytes * (nodes - 1) / nodes / bandwidth.inter_bytes_per_s,
                    .is_serial = true},
                   network);
}

// The least depth of a binary tree over `nodes`.
double TreeDepth(int nodes) { return std::bit_width(static_cast<unsigned>(nodes - 1)); }

// Messages and time between nodes of an all-reduce by two trees.
void AddTreesOverNodes(double bytes, const GroupPlacement& placement, const Network& network,
                       const Bandwidth& bandwidth, Demand& demand) {
  const int nodes = placement.num_nodes;
  if (nodes == 1) return;
  // Inner nodes of one tree are leaves of the other: in all, two bytes leave a node for each byte
  // of the tensor.
  demand.inter_messages = 2 * TreeDepth(nodes);
  demand.inter_s =
      2 * bytes / (bandwidth.inter_bytes_per_s * network.cluster.collectives.tree_efficiency);
}

double TreeSeconds(double bytes, const GroupPlacement& placement, const Network& network) {
  const double efficiency = network.cluster.collectives.tree_efficiency;
  if (efficiency == 0) return kImpossible;
  const Bandwidth bandwidth = RingBandwidth(bytes, placement, network);
  Demand demand;
  if (placement.ranks_per_node > 1) {
    demand.intra_messages = 2 * (placement.ranks_per_node - 1);
    demand.intra_s = 2 * bytes / (bandwidth.intra_bytes_per_s * efficiency);
  }
  AddTreesOverNodes(bytes, placement, network, bandwidth, demand);
  return SecondsOf(demand, network);
}

// Through the switches of a node and back once; messages have the full bandwidth alone.
double NvlsSeconds(double link_bytes, int passes, const Network& network) {
  const spec::CollectiveSpec& collectives = network.cluster.collectives;
  return passes * collectives.nvls_latency_s +
         link_bytes /
             (network.cluster.intra_node.bandwidth_bytes_per_s * collectives.nvls_efficiency);
}

bool HasNvls(const GroupPlacement& placement, const Network& network) {
  return network.cluster.collectives.nvls_efficiency > 0 && placement.ranks_per_node > 1;
}

double NvlsAllReduceSeconds(double bytes, const GroupPlacement& placement, const Network& network) {
  const spec::CollectiveSpec& collectives = network.cluster.collectives;
  if (!HasNvls(placement, network)) return kImpossible;
  const double local_s = NvlsSeconds(bytes * (1 + 1.0 / placement.ranks_per_node), 2, network);
  if (placement.num_nodes == 1) return collectives.overhead_s + local_s;
  if (collectives.tree_efficiency == 0) return kImpossible;
  Demand demand;
  AddTreesOverNodes(bytes, placement, network, RingBandwidth(bytes, placement, network), demand);
  const double messages_s = demand.inter_messages * network.cluster.inter_node.latency_s;
  return collectives.overhead_s + std::max(local_s, demand.inter_s) + messages_s;
}

double NvlsHalfSeconds(double bytes, const GroupPlacement& placement, const Network& network) {
  if (!HasNvls(placement, network) || placement.num_nodes > 1) return kImpossible;
  const double size = placement.size;
  return network.cluster.collectives.overhead_s +
         NvlsSeconds(bytes * (size - 1) / size, 1, network);
}

// One half of an all-reduce: the two halves move the same bytes.
double ScatterOrGatherSeconds(double bytes, const GroupPlacement& placement,
                              const Network& network) {
  if (placement.size == 1) return 0;
  return std::min({RingSeconds(1, bytes, placement, network),
                   HierarchicalSeconds(1, bytes, placement, network),
                   NvlsHalfSeconds(bytes, placement, network)});
}

}  // namespace

double AllReduceSecondsBy(CollectiveAlgorithm algorithm, double bytes,
                          const GroupPlacement& placement, const Network& network) {
  if (placement.size == 1) return 0;
  switch (algorithm) {
    case CollectiveAlgorithm::kRing:
      return RingSeconds(2, bytes, placement, network);
    case CollectiveAlgorithm::kTree:
      return TreeSeconds(bytes, placement, network);
    case CollectiveAlgorithm::kHierarchical:
      return HierarchicalSeconds(2, bytes, placement, network);
    case CollectiveAlgorithm::kNvls:
      return NvlsAllReduceSeconds(bytes, placement, network);
  }
  base::FailCheck(__FILE__, __LINE__, "an algorithm", static_cast<int>(algorithm));
}

double AllReduceSeconds(double bytes, const GroupPlacement& placement, const Network& network) {
  if (placement.size == 1) return 0;
  return std::min({RingSeconds(2, bytes, placement, network),
                   TreeSeconds(bytes, placement, network),
                   HierarchicalSeconds(2, bytes, placement, network),
                   NvlsAllReduceSeconds(bytes, placement, network)});
}

double ReduceScatterSeconds(double bytes, const GroupPlacement& placement, const Network& network) {
  return ScatterOrGatherSeconds(bytes, placement, network);
}

double AllGatherSeconds(double bytes, const GroupPlacement& placement, const Network& network) {
  return ScatterOrGatherSeconds(bytes, placement, network);
}

double BroadcastSeconds(double bytes, const GroupPlacement& placement, const Network& network) {
  if (placement.size == 1) return 0;
  const Bandwidth bandwidth = RingBandwidth(bytes, placement, network);
  Demand demand;
  demand.inter_messages = placement.num_nodes - 1;
  demand.intra_messages = placement.size - 1 - demand.inter_messages;
  if (placement.ranks_per_node > 1) demand.intra_s = bytes / bandwidth.intra_bytes_per_s;
  if (placement.num_nodes > 1) demand.inter_s = bytes / bandwidth.inter_bytes_per_s;
  return SecondsOf(demand, network);
}

double CopiesShare(int64_t num_copies, int num_nodes) {
  const double nodes = num_nodes;
  const auto copies = static_cast<double>(num_copies);
  return nodes * (1 - std::pow(1 - 1 / nodes, copies)) / copies;
}

double AllToAllSeconds(double bytes, const GroupPlacement& placement, const Network& network,
                       double inter_node_share) {
  if (placement.size == 1) return 0;
  const double part = bytes / placement.size;
  const int local = placement.ranks_per_node;
  const int remote = placement.size - local;
  // The share of the messages between nodes that leaves the pod.
  const double pod_share = 1 - static_cast<double>(placement.nodes_per_pod) / placement.num_nodes;
  const Bandwidth bandwidth = BandwidthOf(part, placement, network, pod_share);
  const double intra_s = SecondsOf({.intra_messages = static_cast<double>(local - 1),
                                    .intra_s = part * (local - 1) / bandwidth.intra_bytes_per_s},
                                   network);
  if (remote <= 0) return intra_s;
  // All local ranks send to all remote ones. Both levels work at the same time.
  return std::max(intra_s, SecondsOf({.inter_messages = static_cast<double>(remote),
                                      .inter_s = inter_node_share * part * remote * local /
                                                 bandwidth.inter_bytes_per_s},
                                     network));
}

double RingExchangeSeconds(double bytes, const GroupPlacement& placement, const Network& network) {
  if (placement.size == 1) return 0;
  double seconds = 0;
  if (placement.ranks_per_node > 1) seconds = IntraNodeTransferSeconds(bytes, network);
  if (placement.num_nodes == 1) return seconds;
  // One rank of the group on each node sends to the next node.
  const bool crosses_pods = placement.num_nodes > placement.nodes_per_pod &&
                            network.cluster.fabric.oversubscription > placement.nodes_per_pod;
  return std::max(
      seconds, InterNodeTransferSeconds(bytes, placement.groups_per_node, network, crosses_pods));
}

double IntraNodeTransferSeconds(double bytes, const Network& network) {
  const double bandwidth = IntraNodeBandwidth(network.cluster, network.ranks_on_node) *
                           EfficiencyAt(network.cluster.intra_node.size_efficiency, bytes);
  return SecondsOf({.intra_messages = 1, .intra_s = bytes / bandwidth}, network);
}

double InterNodeTransferSeconds(double bytes, int num_senders, const Network& network,
                                bool crosses_pods) {
  double bandwidth = InterNodeBandwidth(network, num_senders) *
                     EfficiencyAt(network.cluster.inter_node.size_efficiency, bytes);
  if (crosses_pods) bandwidth /= network.cluster.fabric.oversubscription;
  return SecondsOf({.inter_messages = 1, .inter_s = bytes / bandwidth}, network);
}

double CollectiveSeconds(const base::OpRecord& record, double element_bytes,
                         const GroupPlacement& placement, const Network& network) {
  const double bytes = static_cast<double>(record.dims[0]) * element_bytes;
  switch (record.kind) {
    case base::OpKind::kAllReduce:
      return AllReduceSeconds(bytes, placement, network);
    case base::OpKind::kReduceScatter:
      return ReduceScatterSeconds(bytes, placement, network);
    case base::OpKind::kAllGather:
      return AllGatherSeconds(bytes, placement, network);
    case base::OpKind::kBroadcast:
      return BroadcastSeconds(bytes, placement, network);
    case base::OpKind::kAllToAll:
      return AllToAllSeconds(bytes, placement, network);
    default:
      break;
  }
  base::FailCheck(__FILE__, __LINE__, "a collective", base::ToString(record));
}

}  // namespace tessera::cost_model
