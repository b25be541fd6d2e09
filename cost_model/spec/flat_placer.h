// Where parameters lie in a flat buffer and its buckets, one after the other: the rule behind
// MakeFlatLayout, for those who need no list of it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cost_model/spec/flat_layout.h"

namespace tessera::spec {

// A parameter as a flat buffer sees it.
struct FlatItem {
  int64_t num_elements = 0;
  bool packed_with_previous = false;
  bool starts_part = false;            // the first of a layer, of the embedding or of the head
  bool starts_bucket = false;          // where buckets are parts
  bool in_bucket_of_previous = false;  // whatever its size
  bool operator==(const FlatItem&) const = default;
};
// `parameters`: of one gradient group.
std::vector<FlatItem> FlatItemsOf(std::span<const ParameterSpec> parameters,
                                  const ParallelSpec& parallel);

class FlatPlacer {
 public:
  // Buckets close at a multiple of `bucket_multiple`.
  FlatPlacer(const ParallelSpec& parallel, int64_t bucket_multiple)
      : by_part_(ReducesEachMicrobatch(parallel)),
        bucket_elements_(parallel.bucket_elements),
        bucket_multiple_(bucket_multiple) {}

  // Returns the offset of the parameter.
  int64_t Place(const FlatItem& item);
  // The same list again and again.
  void PlaceTimes(const std::vector<FlatItem>& items, int64_t times);
  // Closes the last bucket. Returns the elements of the buffer, padding included.
  int64_t Finish();

  // Those closed, unless they were placed by PlaceTimes.
  const std::vector<FlatBucket>& buckets() const { return buckets_; }

 private:
  void CloseBucket();

  const bool by_part_;
  const int64_t bucket_elements_;
  const int64_t bucket_multiple_;
  std::vector<FlatBucket> buckets_;
  bool keeps_buckets_ = true;
  FlatBucket bucket_;  // the open one
  int64_t end_ = 0;
};

// The multiple of a bucket's elements: each of the ranks that reduce it owns an aligned part.
int64_t BucketMultiple(const ParallelSpec& parallel, bool is_expert);

}  // namespace tessera::spec
