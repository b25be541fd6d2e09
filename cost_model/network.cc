#include "cost_model/network.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "cost_model/base/math.h"

namespace tessera::cost_model {
namespace {

bool IsOneNode(const spec::ClusterSpec& cluster, int world_size) {
  return cluster.shared_compute_units > 0 || world_size <= spec::DevicesPerDomain(cluster);
}

// Members of a row of `size` ranks, `stride` apart, that a block of `block` ranks holds, and
// whether every block that the row meets holds as many.
struct RowCount {
  int64_t members = 1;
  bool is_even = true;
};
RowCount CountInBlock(int64_t size, int64_t stride, int64_t block) {
  if (size == 1 || stride >= block) return {};
  const int64_t span = size * stride;
  return {.members = std::clamp<int64_t>(block / stride, 1, size),
          .is_even = block % stride == 0 && (block % span == 0 || span % block == 0)};
}

int64_t BlockSize(const RankGroup& group) {
  return group.block_size > 0 ? group.block_size : group.size;
}

// Members of a group in a block of ranks.
RowCount CountInBlock(const RankGroup& group, int64_t block) {
  const int64_t inner_size = BlockSize(group);
  const RowCount inner = CountInBlock(inner_size, group.stride, block);
  const RowCount outer = CountInBlock(group.size / inner_size, group.block_stride, block);
  return {.members = inner.members * outer.members, .is_even = inner.is_even && outer.is_even};
}

int64_t MemberOf(const RankGroup& group, int64_t i) {
  const int64_t inner_size = BlockSize(group);
  return i % inner_size * group.stride + i / inner_size * group.block_stride;
}

// The most nodes that a group of the kind touches, by its ranks one by one: for groups that do not
// fill nodes evenly.
int MostNodesTouched(const RankGroup& group, int world_size, int64_t node) {
  const int64_t inner_size = BlockSize(group);
  const int64_t inner_span = inner_size * group.stride;
  const int64_t num_blocks = group.size / inner_size;
  const int64_t span = num_blocks > 1 ? num_blocks * group.block_stride : inner_span;
  const int64_t period = std::min<int64_t>(world_size, std::lcm(node, span));
  int most = 1;
  for (int64_t first = 0; first < period; ++first) {
    // First members of a group have place 0 along its axes.
    if (first % inner_span / group.stride != 0) continue;
    if (num_blocks > 1 && first % span / group.block_stride != 0) continue;
    int nodes = 1;
    for (int64_t i = 1; i < group.size; ++i) {
      // Members ascend, so a node once left does not come back.
      if ((first + MemberOf(group, i)) / node != (first + MemberOf(group, i - 1)) / node) ++nodes;
    }
    most = std::max(most, nodes);
  }
  return most;
}

int64_t PodRanks(const spec::ClusterSpec& cluster, int ranks_per_node) {
  if (cluster.fabric.pod_nodes == 0) return 0;
  // Pods are counted in hosts, of which a domain may hold several.
  const int64_t ranks = static_cast<int64_t>(cluster.fabric.pod_nodes) * cluster.devices_per_node;
  return std::max<int64_t>(ranks, ranks_per_node);
}

// The group as blocks of equally spaced members.
RankGroup FromMembers(const std::vector<int>& ranks) {
  RankGroup group{.size = static_cast<int>(ranks.size())};
  if (group.size == 1) return group;
  group.stride = ranks[1] - ranks[0];
  int block = 2;
  while (block < group.size && ranks[block] - ranks[block - 1] == group.stride) ++block;
  if (block == group.size) return group;
  group.block_size = block;
  group.block_stride = ranks[block] - ranks[0];
  return group;
}

bool IsSpecialAxis(spec::Axis axis) {
  return axis == spec::Axis::kTensor || axis == spec::Axis::kContext || axis == spec::Axis::kData ||
         axis == spec::Axis::kPipeline || axis == spec::Axis::kEmbedding ||
         axis == spec::Axis::kWorld;
}

}  // namespace

RankGroup GroupAlong(const spec::RankLayout& layout, spec::Axis axis) {
  const spec::GroupShape shape = layout.ShapeOf(axis);
  const RankGroup group{.size = shape.size, .stride = shape.stride};
  // Groups within a stage are evenly spaced unless pp lies between the axes that they span.
  if (shape.size <= 2 || IsSpecialAxis(axis)) return group;
  const spec::GroupShape pipeline = layout.ShapeOf(spec::Axis::kPipeline);
  const bool pipeline_outside =
      pipeline.size == 1 || pipeline.stride * pipeline.size == layout.world_size();
  if (pipeline_outside || pipeline.stride == 1) return group;
  return FromMembers(layout.GroupOf(0, axis));
}

LayoutGroups MakeLayoutGroups(const spec::ParallelSpec& parallel) {
  const spec::RankLayout layout(parallel);
  LayoutGroups groups;
  groups.tensor = GroupAlong(layout, spec::Axis::kTensor);
  groups.context = GroupAlong(layout, spec::Axis::kContext);
  groups.expert = GroupAlong(layout, spec::Axis::kExpert);
  groups.expert_tensor = GroupAlong(layout, spec::Axis::kExpertTensor);
  groups.expert_data = GroupAlong(layout, spec::Axis::kExpertData);
  groups.data = GroupAlong(layout, spec::Axis::kData);
  groups.gradient = GroupAlong(layout, spec::Axis::kGradient);
  groups.shard = GroupAlong(layout, spec::Axis::kShard);
  groups.shard_replica = GroupAlong(layout, spec::Axis::kShardReplica);
  groups.expert_shard = GroupAlong(layout, spec::Axis::kExpertShard);
  groups.expert_shard_replica = GroupAlong(layout, spec::Axis::kExpertShardReplica);
  groups.pipeline = GroupAlong(layout, spec::Axis::kPipeline);
  return groups;
}

int RanksPerNode(const spec::ClusterSpec& cluster, int world_size) {
  if (IsOneNode(cluster, world_size)) return world_size;
  const int node = cluster.devices_per_node;
  for (int ranks = spec::DevicesPerDomain(cluster) / node * node; ranks > node; ranks -= node) {
    if (world_size % ranks == 0) return ranks;
  }
  return node;
}

GroupPlacement PlaceGroup(const RankGroup& group, int world_size,
                          const spec::ClusterSpec& cluster) {
  GroupPlacement placement{.size = group.size};
  if (group.size == 1 || IsOneNode(cluster, world_size)) {
    placement.ranks_per_node = group.size;
    return placement;
  }
  const int node = RanksPerNode(cluster, world_size);
  const RowCount on_node = CountInBlock(group, node);
  const bool is_even = on_node.is_even && world_size % node == 0;
  placement.num_nodes = is_even ? static_cast<int>(group.size / on_node.members)
                                : MostNodesTouched(group, world_size, node);
  placement.ranks_per_node = static_cast<int>(base::CeilDiv(group.size, placement.num_nodes));
  if (placement.num_nodes > 1) {
    const bool fits_a_node = group.block_size == 0 && group.size * group.stride <= node;
    // Groups that would fit a node but lie across a border cross it together with those
    // interleaved with them.
    placement.groups_per_node =
        static_cast<int>(fits_a_node ? std::min<int64_t>(group.stride, node)
                                     : std::max(1, node / placement.ranks_per_node));
  }
  placement.nodes_per_pod = placement.num_nodes;
  if (const int64_t pod = PodRanks(cluster, node); pod > 0) {
    const int64_t in_pod = CountInBlock(group, pod).members / placement.ranks_per_node;
    placement.nodes_per_pod = static_cast<int>(std::clamp<int64_t>(in_pod, 1, placement.num_nodes));
  }
  return placement;
}

bool CrossesBlocks(const RankGroup& pipeline, int stage, int world_size, int64_t block_ranks) {
  if (pipeline.size == 1 || world_size <= block_ranks) return false;
  const int64_t span = pipeline.size * pipeline.stride;
  if (block_ranks % span == 0) return false;
  if (span != world_size) return true;  // several pipelines, shifted against the borders
  // Stage k is ranks [k * stride, (k + 1) * stride). Some pair of neighbours lies astride a
  // border exactly when one falls between the first sender and the last receiver.
  const int64_t first_sender = stage * pipeline.stride;
  const int64_t last_receiver = first_sender + 2 * pipeline.stride - 1;
  return last_receiver / block_ranks > first_sender / block_ranks;
}

Network MakeNetwork(const spec::ClusterSpec& cluster, int world_size) {
  Network network{.cluster = cluster,
                  .world_size = world_size,
                  .ranks_on_node = RanksPerNode(cluster, world_size)};
  const bool is_pool = cluster.shared_compute_units > 0;
  network.ranks_on_pod = is_pool ? 0 : PodRanks(cluster, network.ranks_on_node);
  const spec::LinkSpec& link = cluster.inter_node;
  const double nic = link.bandwidth_bytes_per_s * link.efficiency;
  const double num_hosts =
      is_pool
          ? 1
          : std::max(1.0, static_cast<double>(network.ranks_on_node) / cluster.devices_per_node);
  const double nics_per_host = cluster.nics_per_node;
  network.node_nic_bytes_per_s = num_hosts * nics_per_host * nic;
  network.rank_nic_bytes_per_s =
      nic * (cluster.fabric.rail_nics ? std::max(1.0, nics_per_host / cluster.devices_per_node)
                                      : nics_per_host);
  if (cluster.fabric.rail_nics) network.ranks_per_nic = cluster.devices_per_node / nics_per_host;
  network.protocols.push_back({.bandwidth_share = 1,
                               .intra_node_latency_s = cluster.intra_node.latency_s,
                               .inter_node_latency_s = cluster.inter_node.latency_s});
  network.protocols.insert(network.protocols.end(), cluster.collectives.protocols.begin(),
                           cluster.collectives.protocols.end());
  // The largest of n normal deviations is sqrt(2 ln n) standard deviations at most in the mean.
  network.straggler_share = cluster.pace_deviation * std::sqrt(2 * std::log(world_size));
  return network;
}

double InterNodeBandwidth(const Network& network, int num_senders) {
  return std::min(network.node_nic_bytes_per_s / num_senders, network.rank_nic_bytes_per_s);
}

double GroupNicBandwidth(const Network& network, const GroupPlacement& placement) {
  const int ranks = placement.ranks_per_node;
  const int groups = placement.groups_per_node;
  const double fair_share = ranks * InterNodeBandwidth(network, ranks * groups);
  if (network.ranks_per_nic <= 1 || ranks == 1 || groups == 1) return fair_share;
  // First ranks of the groups sit side by side, at as few NICs.
  const double nics_in_use = std::ceil(groups / network.ranks_per_nic);
  return std::min(fair_share, nics_in_use * network.rank_nic_bytes_per_s / groups);
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
