#include "cost_model/collective_cost.h"

#include <algorithm>

#include "cost_model/base/check.h"
#include "cost_model/efficiency.h"
#include "cost_model/rank_device.h"

namespace tessera::cost_model {
namespace {

// `ring_bytes` over a link inside a node in `num_messages` messages; the efficiency is that of a
// message of `message_bytes`.
double IntraNodeSeconds(double ring_bytes, int num_messages, double message_bytes,
                        const Network& network) {
  const spec::LinkSpec& link = network.cluster.intra_node;
  const double bandwidth = IntraNodeBandwidth(network.cluster, network.ranks_on_node) *
                           EfficiencyAt(link.size_efficiency, message_bytes);
  return ring_bytes / bandwidth + num_messages * link.latency_s;
}

double InterNodeSeconds(double ring_bytes, int num_messages, double message_bytes, int num_senders,
                        const Network& network) {
  const spec::LinkSpec& link = network.cluster.inter_node;
  const double bandwidth = InterNodeBandwidth(network.cluster, num_senders) *
                           EfficiencyAt(link.size_efficiency, message_bytes);
  return ring_bytes / bandwidth + num_messages * link.latency_s;
}

// One half of an all-reduce: the two halves move the same bytes.
double ScatterOrGatherSeconds(double bytes, const GroupPlacement& placement,
                              const Network& network) {
  double seconds = 0;
  const int local = placement.ranks_per_node;
  if (local > 1) {
    seconds += IntraNodeSeconds(bytes * (local - 1) / local, local - 1, bytes, network);
  }
  const int nodes = placement.num_nodes;
  if (nodes > 1) {
    const double part = bytes / local;
    seconds += InterNodeSeconds(part * (nodes - 1) / nodes, nodes - 1, part,
                                local * placement.groups_per_node, network);
  }
  return seconds;
}

}  // namespace

Network MakeNetwork(const spec::ClusterSpec& cluster, int world_size) {
  return {.cluster = cluster,
          .world_size = world_size,
          .ranks_on_node = RanksOnNode(cluster, world_size)};
}

double ReduceScatterSeconds(double bytes, const GroupPlacement& placement, const Network& network) {
  return ScatterOrGatherSeconds(bytes, placement, network);
}

double AllGatherSeconds(double bytes, const GroupPlacement& placement, const Network& network) {
  return ScatterOrGatherSeconds(bytes, placement, network);
}

double AllReduceSeconds(double bytes, const GroupPlacement& placement, const Network& network) {
  return 2 * ScatterOrGatherSeconds(bytes, placement, network);
}

double AllToAllSeconds(double bytes, const GroupPlacement& placement, const Network& network) {
  if (placement.size == 1) return 0;
  const double part = bytes / placement.size;
  const int local = placement.ranks_per_node;
  const int remote = placement.size - local;
  const double intra_s = IntraNodeSeconds(part * (local - 1), local - 1, part, network);
  if (remote <= 0) return intra_s;
  // Both levels work at the same time.
  return std::max(intra_s, InterNodeSeconds(part * remote, remote, part,
                                            local * placement.groups_per_node, network));
}

double IntraNodeTransferSeconds(double bytes, const Network& network) {
  return IntraNodeSeconds(bytes, 1, bytes, network);
}

double InterNodeTransferSeconds(double bytes, int num_senders, const Network& network) {
  return InterNodeSeconds(bytes, 1, bytes, num_senders, network);
}

double CollectiveSeconds(const base::OpRecord& record, double element_bytes,
                         const GroupPlacement& placement, const Network& network) {
  const double bytes = static_cast<double>(record.dims[0]) * element_bytes;
  switch (record.kind) {
    case base::OpKind::kAllReduce:
      return AllReduceSeconds(bytes, placement, network);
    case base::OpKind::kReduceScatter:
      return ReduceScatterSeconds(bytes, placement, network);
    case base::OpKind::kBroadcast:
    case base::OpKind::kAllGather:
      return AllGatherSeconds(bytes, placement, network);
    case base::OpKind::kAllToAll:
      return AllToAllSeconds(bytes, placement, network);
    default:
      break;
  }
  base::FailCheck(__FILE__, __LINE__, "a collective", base::ToString(record));
}

}  // namespace tessera::cost_model
