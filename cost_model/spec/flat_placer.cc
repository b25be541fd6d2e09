#include "cost_model/spec/flat_placer.h"

#include <algorithm>

#include "cost_model/base/math.h"

namespace tessera::spec {

std::vector<FlatItem> FlatItemsOf(std::span<const ParameterSpec> parameters,
                                  const ParallelSpec& parallel) {
  std::vector<FlatItem> items;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const ParameterSpec& parameter = parameters[i];
    const bool starts_part = i == 0 || parameters[i - 1].layer != parameter.layer;
    // First and last stage place a tied embedding alike, so that its shards are the same.
    const auto is_word_embedding = [&](size_t j) { return parameters[j].name == kWordEmbedding; };
    const bool starts_bucket = starts_part || is_word_embedding(i) || is_word_embedding(i - 1);
    items.push_back(
        {.num_elements =
             SliceOf(parameter, TensorSizeOf(parameter, parallel), /*tensor_rank=*/0).num_elements,
         .packed_with_previous = parameter.packed_with_previous,
         .starts_part = starts_part,
         .starts_bucket = starts_bucket,
         .in_bucket_of_previous = parameter.is_expert && !starts_part});
  }
  return items;
}

int64_t FlatPlacer::Place(const FlatItem& item) {
  if (!item.packed_with_previous) {
    const bool is_full = !item.in_bucket_of_previous && end_ - bucket_.offset >= bucket_elements_;
    if (bucket_.num_parameters > 0 && (by_part_ ? item.starts_bucket : is_full)) CloseBucket();
    end_ = base::RoundUp(end_, kFlatAlignmentElements);
  }
  const int64_t offset = end_;
  end_ += item.num_elements;
  ++bucket_.num_parameters;
  return offset;
}

void FlatPlacer::PlaceTimes(const std::vector<FlatItem>& items, int64_t times) {
  keeps_buckets_ = false;
  // What is placed next depends on how full the open bucket is. Once it is as full as before, what
  // lay between repeats itself.
  int64_t mark = 0;  // the repetition remembered, the last power of two
  int64_t mark_size = -1;
  int64_t mark_end = 0;
  for (int64_t i = 0; i < times; ++i) {
    const int64_t size = end_ - bucket_.offset;
    if (size == mark_size) {
      const int64_t period = i - mark;
      const int64_t num_repeats = (times - i) / period;
      const int64_t shift = num_repeats * (end_ - mark_end);
      end_ += shift;
      bucket_.offset += shift;
      i += num_repeats * period;
      mark_size = -1;
      if (i == times) break;
    } else if ((i & (i - 1)) == 0) {
      mark = i;
      mark_size = size;
      mark_end = end_;
    }
    for (const FlatItem& item : items) Place(item);
  }
}

int64_t FlatPlacer::Finish() {
  if (bucket_.num_parameters > 0) CloseBucket();
  return end_;
}

void FlatPlacer::CloseBucket() {
  end_ = bucket_.offset + base::RoundUp(end_ - bucket_.offset, bucket_multiple_);
  bucket_.num_elements = end_ - bucket_.offset;
  if (keeps_buckets_) buckets_.push_back(bucket_);
  bucket_ = {.offset = end_, .first_parameter = bucket_.first_parameter + bucket_.num_parameters};
}

int64_t BucketMultiple(const ParallelSpec& parallel, bool is_expert) {
  // Counts for many layouts leave the data ranks out: then fewer ranks than the experts want.
  const int group_size =
      is_expert ? std::max(1, ExpertDataSize(parallel)) : GradientGroupSize(parallel);
  return kFlatAlignmentElements * group_size;
}

}  // namespace tessera::spec
