// Which rank sits where on the parallel mesh, and which ranks talk along each axis.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "cost_model/spec/parallel_spec.h"

namespace tessera::spec {

// Axes and the further groups that reductions need.
enum class Axis : uint8_t {
  kTensor,
  kContext,
  kExpert,  // neighbours on the data axis, wherever the order names ep
  kData,
  kPipeline,
  kGradient,   // data and context together: the ranks that hold the same parameters
  kModel,      // tensor and pipeline together: the ranks that hold one replica
  kEmbedding,  // first and last stage of one pipeline: holders of a tied embedding
  kKvReplica,  // tensor ranks that hold the same key and value heads
  kWorld,
};
std::string_view ToString(Axis axis);  // "tp", "cp", "ep", "dp", "pp", "grad", ...

struct RankCoord {
  int tensor = 0;
  int context = 0;
  int data = 0;  // over the whole data axis, expert included
  int pipeline = 0;
  bool operator==(const RankCoord&) const = default;
};

class RankLayout {
 public:
  // Throws base::ConfigError when parallel.rank_order is not a permutation of tp, cp, ep, dp, pp.
  explicit RankLayout(const ParallelSpec& parallel);

  int world_size() const;
  RankCoord CoordOf(int rank) const;
  int RankOf(const RankCoord& coord) const;

  // Ranks of the group of `rank` along `axis`, ascending. kEmbedding and kKvReplica
  // are groups of one where nothing is shared; `num_key_value_heads` shapes kKvReplica.
  std::vector<int> GroupOf(int rank, Axis axis, int num_key_value_heads = 0) const;

 private:
  ParallelSpec parallel_;
  // Stride of each mesh axis in ranks.
  int tensor_stride_ = 1, context_stride_ = 1, data_stride_ = 1, pipeline_stride_ = 1;
};

}  // namespace tessera::spec
