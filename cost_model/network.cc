#include "cost_model/network.h"

#include <algorithm>

#include "cost_model/base/math.h"
#include "cost_model/spec/rank_layout.h"

namespace tessera::cost_model {
namespace {

bool IsOneNode(const spec::ClusterSpec& cluster, int world_size) {
  return cluster.shared_compute_units > 0 || world_size <= cluster.devices_per_node;
}

}  // namespace

LayoutGroups MakeLayoutGroups(const spec::ParallelSpec& parallel) {
  const spec::RankLayout layout(parallel);
  const auto group = [&](spec::Axis axis) {
    const spec::GroupShape shape = layout.ShapeOf(axis);
    return RankGroup{.size = shape.size, .stride = shape.stride};
  };
  using spec::Axis;
  LayoutGroups groups;
  groups.tensor = group(Axis::kTensor);
  groups.context = group(Axis::kContext);
  groups.expert = group(Axis::kExpert);
  groups.expert_tensor = group(Axis::kExpertTensor);
  groups.data = group(Axis::kData);
  groups.gradient = group(Axis::kGradient);
  groups.expert_data = group(Axis::kExpertData);
  groups.shard = group(Axis::kShard);
  groups.shard_replica = group(Axis::kShardReplica);
  groups.expert_shard = group(Axis::kExpertShard);
  groups.expert_shard_replica = group(Axis::kExpertShardReplica);
  groups.pipeline = group(Axis::kPipeline);
  return groups;
}

GroupPlacement PlaceGroup(const RankGroup& group, int world_size,
                          const spec::ClusterSpec& cluster) {
  const int64_t node = cluster.devices_per_node;
  const int64_t span = group.size * group.stride;
  const bool fits = span <= node && node % span == 0;
  if (group.size == 1 || IsOneNode(cluster, world_size) || fits) {
    return {.size = group.size, .ranks_per_node = group.size, .num_nodes = 1};
  }
  GroupPlacement placement;
  placement.size = group.size;
  placement.ranks_per_node =
      static_cast<int>(std::clamp<int64_t>(node / group.stride, 1, group.size));
  placement.num_nodes = static_cast<int>(base::CeilDiv(group.size, placement.ranks_per_node));
  placement.groups_per_node =
      static_cast<int>(std::max<int64_t>(1, node / placement.ranks_per_node));
  if (placement.num_nodes == 1) {
    // It would fit a node but lies across a border, together with the groups interleaved with it.
    placement.num_nodes = 2;
    placement.ranks_per_node = (group.size + 1) / 2;
    placement.groups_per_node = static_cast<int>(std::min(group.stride, node));
  }
  return placement;
}

bool CrossesNodes(const RankGroup& pipeline, int stage, int world_size,
                  const spec::ClusterSpec& cluster) {
  if (pipeline.size == 1 || IsOneNode(cluster, world_size)) return false;
  const int64_t node = cluster.devices_per_node;
  const int64_t span = pipeline.size * pipeline.stride;
  if (node % span == 0) return false;
  if (span != world_size) return true;  // several pipelines, shifted against the node borders
  // Stage k is ranks [k * stride, (k + 1) * stride). Some pair of neighbours lies astride a node
  // border exactly when one falls between the first sender and the last receiver.
  const int64_t first_sender = stage * pipeline.stride;
  const int64_t last_receiver = first_sender + 2 * pipeline.stride - 1;
  return last_receiver / node > first_sender / node;
}

double InterNodeBandwidth(const spec::ClusterSpec& cluster, int num_senders) {
  const spec::LinkSpec& link = cluster.inter_node;
  return cluster.nics_per_node * link.bandwidth_bytes_per_s * link.efficiency / num_senders;
}

double IntraNodeBandwidth(const spec::ClusterSpec& cluster, int ranks_on_node) {
  const spec::LinkSpec& link = cluster.intra_node;
  const double link_bandwidth = link.bandwidth_bytes_per_s * link.efficiency;
  if (cluster.shared_compute_units == 0) return link_bandwidth;
  // A byte that arrives is read where it lies, added to one read here, and written.
  constexpr double kMemoryBytesPerByteSent = 3;
  const int ranks_running = std::min(ranks_on_node, cluster.shared_compute_units);
  const double share =
      cluster.device.memory_bandwidth_bytes_per_s / (kMemoryBytesPerByteSent * ranks_running);
  return std::min(link_bandwidth, share);
}

}  // namespace tessera::cost_model
