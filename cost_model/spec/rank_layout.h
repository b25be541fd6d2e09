// Which rank sits where on the parallel mesh, and which ranks talk along each axis.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "cost_model/spec/parallel_spec.h"

namespace tessera::spec {

// Axes and the further groups that reductions need.
enum class Axis : uint8_t {
  kTensor,
  kContext,
  kExpert,  // ranks that hold different experts, see below
  kData,
  kPipeline,
  kGradient,   // data and context together: the ranks that hold the same parameters
  kModel,      // tensor and pipeline together: the ranks that hold one replica
  kEmbedding,  // first and last stage of one pipeline: holders of a tied embedding
  kKvReplica,  // tensor ranks that hold the same key and value heads
  kWorld,
  kExpertTensor,  // ranks that share the matrices of the same experts
  kExpertData,    // ranks that hold the same parts of the same experts: their gradient group
  kShard,         // neighbours of the gradient group that shard state between them
  kShardReplica,  // holders of the same shard, one in each such group
  kExpertShard,   // the same two for the state of experts, within kExpertData
  kExpertShardReplica,
};
std::string_view ToString(Axis axis);  // "tp", "cp", "ep", "dp", "pp", "grad", ...

// How a group lies among the ranks: `stride` is the way from its first member to the second, and to
// each further one unless the order puts pp between the axes that the group spans. 1 for one rank.
struct GroupShape {
  int size = 1;
  int64_t stride = 1;
  bool operator==(const GroupShape&) const = default;
};

struct RankCoord {
  int tensor = 0;
  int context = 0;
  int data = 0;  // over the whole data axis, expert included
  int pipeline = 0;
  bool operator==(const RankCoord&) const = default;
};

// The ranks of one pipeline stage form a second mesh for experts, as in Megatron-LM: expert tensor
// (etp) x expert (ep) x expert data (tp cp dp / (etp ep)) over the same tp x cp x dp ranks, its
// axes in the order that tp, ep and dp have in rank_order. With the default order, ep groups are
// neighbours first along cp, then along dp.
class RankLayout {
 public:
  // Throws base::ConfigError when parallel.rank_order is not a permutation of tp, cp, ep, dp, pp.
  explicit RankLayout(const ParallelSpec& parallel);

  int world_size() const;
  RankCoord CoordOf(int rank) const;
  int RankOf(const RankCoord& coord) const;

  // Ranks of the group of `rank` along `axis`, ascending. kEmbedding and kKvReplica
  // are groups of one where nothing is shared; `num_key_value_heads` shapes kKvReplica.
  // REQUIRES: for expert and shard axes, FindViolations is empty.
  std::vector<int> GroupOf(int rank, Axis axis, int num_key_value_heads = 0) const;
  // Where `rank` stands in its own group.
  int IndexIn(int rank, Axis axis) const;
  // The shape of the group of rank 0. Takes every axis but kKvReplica.
  GroupShape ShapeOf(Axis axis) const;

 private:
  // A mesh axis in the numbering of the ranks of one pipeline stage.
  struct StageAxis {
    int size = 1;
    int stride = 1;
  };

  int StageIndexOf(const RankCoord& coord) const;
  int RankAtStageIndex(int index, int pipeline) const;
  StageAxis ExpertAxisOf(Axis axis) const;
  // The block of `size` members, `step` apart, that holds `rank`, of the group along an expert
  // axis.
  std::vector<int> ExpertGroup(int rank, const StageAxis& axis, int size, int step) const;
  std::vector<int> GradientSubgroup(int rank, int size, int step) const;
  int gradient_size() const { return context_.size * data_.size; }
  int num_shard_replicas() const;

  // Axes of the whole mesh: size and stride in ranks.
  StageAxis tensor_, context_, data_, pipeline_;
  // The first three in the numbering within a stage, and the expert mesh there.
  StageAxis stage_tensor_, stage_context_, stage_data_;
  StageAxis expert_tensor_, expert_, expert_data_;
  int shard_size_ = 1;  // of kShard
};

}  // namespace tessera::spec
