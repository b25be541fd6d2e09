// How the parameters of one rank lie in one flat buffer, and the buckets in which their gradients
// are reduced. The same offsets serve weights, gradients and, per data-parallel shard, the
// optimizer state.
#pragma once

#include <cstdint>
#include <vector>

#include "cost_model/spec/parameter_list.h"
#include "cost_model/spec/training_spec.h"

namespace tessera::spec {

struct FlatParameter {
  int64_t offset = 0;        // elements
  int64_t num_elements = 0;  // as stored on this rank
};

// A contiguous range that is reduced at once. Its size is a multiple of the gradient group's size,
// rank d of the group owning the d-th part.
struct FlatBucket {
  int64_t offset = 0;
  int64_t num_elements = 0;
  int first_parameter = 0;  // whole parameters only
  int num_parameters = 0;
  bool is_expert = false;  // reduced over the ranks that hold the same experts
};

struct FlatLayout {
  std::vector<FlatParameter> parameters;
  std::vector<FlatBucket> buckets;
  int64_t num_elements = 0;  // padding included
};

// Elements that each parameter's start is aligned to: 64 bytes of fp32.
inline constexpr int64_t kFlatAlignmentElements = 16;

// Parameters of all virtual stages of a rank as its flat buffers hold them: in the order of the
// forward pass, but experts behind all others.
std::vector<ParameterSpec> RankParameters(const ModelSpec& model, const ParallelSpec& parallel,
                                          const std::vector<VirtualStage>& stages_of_rank,
                                          int expert_rank);

// Buckets close at the first parameter boundary past parallel.bucket_elements (but never between
// packed parameters, or among the experts of a layer: a grouped product wants them at equal
// distances). Where each micro-batch's gradients are reduced a bucket is a part of the
// model (a layer, the embedding, the head), the word embedding apart. Experts have a gradient group
// of their own, and so a buffer of their own, right behind that of the others: no bucket holds
// both. REQUIRES: experts come last.
FlatLayout MakeFlatLayout(const std::vector<ParameterSpec>& parameters,
                          const ParallelSpec& parallel);

// Parameters of one rank of a pipeline stage, in elements.
struct StateElements {
  int64_t elements = 0;
  int64_t expert_elements = 0;  // of them, those of the experts held here
  // Of parts that are whole only while they are used, what is held in shards else: of the embedding
  // where the head on the same rank reads it too, and of the others the part that holds most and
  // the largest layer.
  int64_t shared_embedding = 0;
  int64_t largest_part = 0;
  int64_t largest_layer = 0;
};

// Bytes of weights, gradients and optimizer state of one rank of a pipeline stage.
struct StateBytes {
  int64_t weights_bytes = 0;
  int64_t gradients_bytes = 0;
  int64_t optimizer_bytes = 0;
  // What is whole for a while: with ZeRO stage 3 the parameters of the part at work and of the
  // layer gathered ahead; where each micro-batch's gradients are reduced, those of the part at work
  // and of a layer whose reduction is under way, if that overlaps.
  int64_t gathered_bytes = 0;
  int64_t unreduced_bytes = 0;
};

// Whether each micro-batch's gradients are reduced at once, so that only a shard of their sum is
// held: ZeRO stage 3, and stage 2 without a pipeline. (In a pipeline stage 2 adds up whole
// gradients and reduces them once, as torchtitan does.)
bool ReducesEachMicrobatch(const ParallelSpec& parallel);

// Elements of the block in which parameters become whole, or in which whole gradients wait for
// their reduction; 0 where none do.
int64_t GatheredElements(const StateElements& elements, const ParallelSpec& parallel);
int64_t UnreducedElements(const StateElements& elements, const ParallelSpec& parallel);
// The part's fields of `elements`, from the buckets of a rank's parameters.
StateElements StateElementsOf(const std::vector<ParameterSpec>& parameters,
                              const FlatLayout& layout, const ModelSpec& model,
                              const ParallelSpec& parallel);
// Whether the ranks that hold a parameter keep shards of it, or of its gradient, if any are kept.
bool IsSharded(bool is_expert, const ParallelSpec& parallel);

// Bytes of one gradient: as it is reduced, but never wider than the precision's own.
int64_t GradientBytes(const TrainingSpec& training, const ParallelSpec& parallel);

// ZeRO stages 1 to 3 shard optimizer state, gradients, parameters over the shard groups:
// Rajbhandari et al. 2020, arXiv:1910.02054, section 5 (mixed precision: 2 + g + 12 bytes a
// parameter with g of gradient). A host that runs the optimizer holds its state.
StateBytes StateBytesOf(const std::vector<VirtualStage>& stages_of_rank, const ModelSpec& model,
                        const TrainingSpec& training, const ParallelSpec& parallel);
// The same for flat buffers of so many elements.
StateBytes StateBytesOf(const StateElements& elements, const TrainingSpec& training,
                        const ParallelSpec& parallel);

}  // namespace tessera::spec
