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
};

struct FlatLayout {
  std::vector<FlatParameter> parameters;
  std::vector<FlatBucket> buckets;
  int64_t num_elements = 0;  // padding included
};

// Elements that each parameter's start is aligned to: 64 bytes of fp32.
inline constexpr int64_t kFlatAlignmentElements = 16;

// `gradient_group_size` = data * context. Buckets close at the first parameter boundary past
// parallel.bucket_elements (but never between packed parameters).
FlatLayout MakeFlatLayout(const std::vector<ParameterSpec>& parameters,
                          const ParallelSpec& parallel);

// Bytes of weights, gradients and optimizer state of one rank of a pipeline stage.
struct StateBytes {
  int64_t weights_bytes = 0;
  int64_t gradients_bytes = 0;
  int64_t optimizer_bytes = 0;
};
StateBytes StateBytesOf(const std::vector<VirtualStage>& stages_of_rank, const ModelSpec& model,
                        const TrainingSpec& training, const ParallelSpec& parallel);
// The same for a flat buffer of `num_elements`.
StateBytes StateBytesOf(int64_t num_elements, const TrainingSpec& training,
                        const ParallelSpec& parallel);

}  // namespace tessera::spec
