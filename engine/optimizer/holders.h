// The ranks that hold the same parameters, of experts or of all others.
#pragma once

#include "engine/comm/process_groups.h"

namespace tessera::engine {

// All of them: their gradients add up.
inline Communicator& HoldersOf(const ProcessGroups& groups, bool is_expert) {
  return is_expert ? *groups.expert_data : *groups.gradient;
}
// Those among which ZeRO shards.
inline Communicator& ShardGroupOf(const ProcessGroups& groups, bool is_expert) {
  Communicator* const part = is_expert ? groups.expert_shard.get() : groups.shard.get();
  return part != nullptr ? *part : HoldersOf(groups, is_expert);
}
// Those that keep the same shard; null where each has its own.
inline Communicator* ShardReplicasOf(const ProcessGroups& groups, bool is_expert) {
  return is_expert ? groups.expert_shard_replica.get() : groups.shard_replica.get();
}

}  // namespace tessera::engine
