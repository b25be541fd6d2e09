#include "cost_model/spec/flat_layout.h"

#include "cost_model/base/check.h"
#include "cost_model/base/math.h"

namespace tessera::spec {
namespace {

constexpr int64_t kMomentBytes = 8;  // AdamW's m and v in fp32
constexpr int64_t kMasterBytes = 4;  // fp32 master weights of mixed precision

}  // namespace

FlatLayout MakeFlatLayout(const std::vector<ParameterSpec>& parameters,
                          const ParallelSpec& parallel) {
  // Shards of a bucket start aligned as parameters do.
  const int64_t bucket_multiple = kFlatAlignmentElements * GradientGroupSize(parallel);
  FlatLayout layout;
  FlatBucket bucket;
  int64_t end = 0;
  const auto close_bucket = [&] {
    end = bucket.offset + base::RoundUp(end - bucket.offset, bucket_multiple);
    bucket.num_elements = end - bucket.offset;
    layout.buckets.push_back(bucket);
    bucket = {.offset = end, .first_parameter = bucket.first_parameter + bucket.num_parameters};
  };
  for (const ParameterSpec& parameter : parameters) {
    if (!parameter.packed_with_previous) {
      if (bucket.num_parameters > 0 && end - bucket.offset >= parallel.bucket_elements) {
        close_bucket();
      }
      end = base::RoundUp(end, kFlatAlignmentElements);
    }
    const int64_t elements =
        SliceOf(parameter, parallel.tensor_parallel_size, /*tensor_rank=*/0).num_elements;
    layout.parameters.push_back({.offset = end, .num_elements = elements});
    end += elements;
    ++bucket.num_parameters;
  }
  if (bucket.num_parameters > 0) close_bucket();
  layout.num_elements = end;
  return layout;
}

StateBytes StateBytesOf(const std::vector<VirtualStage>& stages_of_rank, const ModelSpec& model,
                        const TrainingSpec& training, const ParallelSpec& parallel) {
  std::vector<ParameterSpec> parameters;
  for (const VirtualStage& stage : stages_of_rank) {
    for (ParameterSpec& parameter : StageParameters(model, parallel, stage)) {
      parameters.push_back(std::move(parameter));
    }
  }
  return StateBytesOf(MakeFlatLayout(parameters, parallel).num_elements, training, parallel);
}

StateBytes StateBytesOf(int64_t num_elements, const TrainingSpec& training,
                        const ParallelSpec& parallel) {
  const int group_size = GradientGroupSize(parallel);
  const auto sharded_from = [&](int zero_stage) {
    return parallel.zero_stage >= zero_stage ? num_elements / group_size : num_elements;
  };
  const PrecisionTypes types = TypesOf(training.precision);
  const int64_t optimizer_bytes = kMomentBytes + (types.has_master_weights ? kMasterBytes : 0);
  return {.weights_bytes = sharded_from(3) * base::SizeBytes(types.parameter),
          .gradients_bytes = sharded_from(2) * base::SizeBytes(types.gradient),
          .optimizer_bytes = sharded_from(1) * optimizer_bytes};
}

}  // namespace tessera::spec
