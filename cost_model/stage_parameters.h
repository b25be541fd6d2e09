// The parameters of a rank in numbers: what layouts of the same tensor and expert axes share, and
// what a pipeline stage of so many layers makes of it.
#pragma once

#include <array>
#include <vector>

#include "cost_model/spec/flat_placer.h"
#include "cost_model/spec/layer_form.h"

namespace tessera::cost_model {

// Elements of one rank's parameters of a part of the model, alignment included.
struct PartParameters {
  int64_t elements = 0;
  int64_t expert_elements = 0;  // of them, those of the experts held here
  // Those whose gradients are summed over the tensor-parallel ranks under sequence parallelism.
  int64_t tokenwise = 0;
  // Key and value weights that several tensor-parallel ranks hold.
  int64_t kv_replicated = 0;
};

struct ParameterCounts {
  spec::PerForm<PartParameters> layers;
  PartParameters embedding;
  PartParameters head;
  int64_t tied_embedding = 0;  // held by the first and by the last stage
};

// `layout` stands for all with its tensor and expert axes.
ParameterCounts MakeParameterCounts(const spec::ModelSpec& model, const spec::ParallelSpec& layout);

// The same parameters as flat buffers place them: experts, which are alike, apart from others.
struct PartItems {
  std::vector<spec::FlatItem> others;
  int64_t num_experts = 0;  // held here
};

// Which kinds of layers a chunk has.
struct LayerKinds {
  bool has_dense = false;
  bool has_experts = false;
};

struct ParameterItems {
  PartItems dense_layer;
  PartItems expert_layer;
  PartItems embedding;
  PartItems head;                      // its multi-token layers included
  std::vector<spec::FlatItem> expert;  // one of them
  bool head_reads_embedding = false;
  // Elements of embedding and head together with what belongs to them, on each stage that has them.
  int64_t embedding_end_elements = 0;
  int64_t head_end_elements = 0;
  std::array<int64_t, 4> placeholder_bytes = {};  // by IndexOf

  static size_t IndexOf(const LayerKinds& kinds) {
    return (kinds.has_dense ? 1 : 0) + (kinds.has_experts ? 2 : 0);
  }
  // Those of a chunk's layers, see PlaceholderBytes.
  int64_t PlaceholderBytes(const LayerKinds& kinds) const {
    return placeholder_bytes[IndexOf(kinds)];
  }
};
ParameterItems MakeParameterItems(const spec::ModelSpec& model, const spec::TrainingSpec& training,
                                  const spec::ParallelSpec& layout);

// What a rank holds, all its chunks together: dense layers lead in each chunk, and in the model, so
// that their numbers tell their order.
struct RankLayers {
  int num_dense = 0;
  int num_with_experts = 0;
  bool has_embedding = false;
  bool has_head = false;
};

// Whether the buckets of flat buffers are padded for the ranks that share them, or, for a bound
// that more layers only raise, not.
enum class Padding : uint8_t { kOfBuckets, kNone };

// What spec::StateBytesOf finds by listing the rank's parameters.
spec::StateElements MakeStateElements(const ParameterItems& items, const RankLayers& layers,
                                      const spec::ParallelSpec& parallel, Padding padding);

}  // namespace tessera::cost_model
