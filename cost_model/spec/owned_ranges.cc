#include "cost_model/spec/owned_ranges.h"

#include <array>

namespace tessera::spec {
namespace {

// Where a rank stands among those that hold the same parameters.
struct Standing {
  int shard = 0;       // which shard of a bucket is its own,
  int num_shards = 1;  // of so many
  bool is_first_holder = true;
};

Standing StandingOf(const ParallelSpec& parallel, const RankLayout& ranks, int rank,
                    bool is_expert) {
  if (parallel.zero_stage == 0) {
    const Axis axis = is_expert ? Axis::kExpertData : Axis::kGradient;
    return {.is_first_holder = ranks.IndexIn(rank, axis) == 0};
  }
  const Axis shard = is_expert ? Axis::kExpertShard : Axis::kShard;
  const Axis replica = is_expert ? Axis::kExpertShardReplica : Axis::kShardReplica;
  return {.shard = ranks.IndexIn(rank, shard),
          .num_shards = is_expert ? ExpertShardGroupSize(parallel) : ShardGroupSize(parallel),
          .is_first_holder = ranks.IndexIn(rank, replica) == 0};
}

}  // namespace

std::vector<OwnedRange> OwnedRanges(const FlatLayout& layout, const ParallelSpec& parallel,
                                    const RankLayout& ranks, int rank) {
  const std::array<Standing, 2> standings = {StandingOf(parallel, ranks, rank, false),
                                             StandingOf(parallel, ranks, rank, true)};
  std::vector<OwnedRange> owned;
  int64_t state_offset = 0;
  for (const FlatBucket& bucket : layout.buckets) {
    const Standing& standing = standings[bucket.is_expert ? 1 : 0];
    const int64_t part = bucket.num_elements / standing.num_shards;
    const int64_t offset = bucket.offset + standing.shard * part;
    const bool continues =
        parallel.zero_stage == 0 && !owned.empty() && owned.back().is_expert == bucket.is_expert;
    if (continues) {
      owned.back().num_elements += part;
    } else {
      owned.push_back({.offset = offset,
                       .num_elements = part,
                       .state_offset = state_offset,
                       .is_expert = bucket.is_expert,
                       .is_first_holder = standing.is_first_holder});
    }
    state_offset += part;
  }
  return owned;
}

int64_t NumOwnedElements(const std::vector<OwnedRange>& owned) {
  return owned.empty() ? 0 : owned.back().state_offset + owned.back().num_elements;
}

}  // namespace tessera::spec
