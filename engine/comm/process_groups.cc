#include "engine/comm/process_groups.h"

#include <algorithm>
#include <string>
#include <vector>

#include "cost_model/base/check.h"
#include "cost_model/base/error.h"

namespace tessera::engine {
namespace {

using spec::Axis;

// "tp{0,1}"
std::string GroupName(Axis axis, const std::vector<int>& ranks) {
  std::string name = base::Concat(spec::ToString(axis), '{');
  for (size_t i = 0; i < ranks.size(); ++i) name += base::Concat(i == 0 ? "" : ",", ranks[i]);
  return name + '}';
}

std::unique_ptr<Communicator> SplitAlong(Communicator& world, const spec::RankLayout& layout,
                                         Axis axis, int num_key_value_heads) {
  const std::vector<int> ranks = layout.GroupOf(world.rank(), axis, num_key_value_heads);
  const auto self = std::find(ranks.begin(), ranks.end(), world.rank());
  TESSERA_CHECK(self != ranks.end(), "rank ", world.rank(), " outside its own ",
                GroupName(axis, ranks));
  const int color = *std::min_element(ranks.begin(), ranks.end());
  auto group = world.Split(color, static_cast<int>(self - ranks.begin()), GroupName(axis, ranks));
  TESSERA_CHECK(group->size() == static_cast<int>(ranks.size()), GroupName(axis, ranks), " has ",
                group->size(), " ranks");
  return group;
}

}  // namespace

ProcessGroups::ProcessGroups(Communicator& world_comm, const spec::ParallelSpec& parallel,
                             int num_key_value_heads)
    : world(world_comm), layout(parallel) {
  if (world.size() != layout.world_size()) {
    throw base::ConfigError("process groups", "world size", std::to_string(world.size()) + " ranks",
                            std::to_string(layout.world_size()) + " as the layout has");
  }
  coord = layout.CoordOf(world.rank());
  const auto split = [&](Axis axis) {
    return SplitAlong(world, layout, axis, num_key_value_heads);
  };
  tensor = split(Axis::kTensor);
  context = split(Axis::kContext);
  pipeline = split(Axis::kPipeline);
  gradient = split(Axis::kGradient);
  model = split(Axis::kModel);
  embedding = split(Axis::kEmbedding);
  kv_replica = split(Axis::kKvReplica);
  expert = split(Axis::kExpert);
  expert_tensor = split(Axis::kExpertTensor);
  expert_data = split(Axis::kExpertData);
  const bool has_replicas =
      parallel.zero_stage > 0 && ShardGroupSize(parallel) != GradientGroupSize(parallel);
  if (!has_replicas) return;
  shard = split(Axis::kShard);
  shard_replica = split(Axis::kShardReplica);
  expert_shard = split(Axis::kExpertShard);
  expert_shard_replica = split(Axis::kExpertShardReplica);
}

void ProcessGroups::set_observer(base::OpObserver* observer) {
  const auto set = [&](Communicator& comm, Axis axis) {
    comm.set_observer(observer, static_cast<int>(axis));
  };
  set(world, Axis::kWorld);
  set(*tensor, Axis::kTensor);
  set(*context, Axis::kContext);
  set(*pipeline, Axis::kPipeline);
  set(*gradient, Axis::kGradient);
  set(*model, Axis::kModel);
  set(*embedding, Axis::kEmbedding);
  set(*kv_replica, Axis::kKvReplica);
  set(*expert, Axis::kExpert);
  set(*expert_tensor, Axis::kExpertTensor);
  set(*expert_data, Axis::kExpertData);
  if (shard == nullptr) return;
  set(*shard, Axis::kShard);
  set(*shard_replica, Axis::kShardReplica);
  set(*expert_shard, Axis::kExpertShard);
  set(*expert_shard_replica, Axis::kExpertShardReplica);
}

}  // namespace tessera::engine
