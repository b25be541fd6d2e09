// Where parameters lie in a flat buffer and its buckets, one after the other: the rule behind
// MakeFlatLayout, for those who need no list of it.
#pragma once

#include <cstdint>
#include <vector>

#include "cost_model/spec/flat_layout.h"

namespace tessera::spec {

// A parameter as a flat buffer sees it.
struct FlatItem {
  int64_t num_elements = 0;
  bool packed_with_previous = false;
  bool operator==(const FlatItem&) const = default;
};

class FlatPlacer {
 public:
  // Buckets close at the first boundary past `bucket_elements`, at a multiple of `bucket_multiple`.
  FlatPlacer(int64_t bucket_elements, int64_t bucket_multiple)
      : bucket_elements_(bucket_elements), bucket_multiple_(bucket_multiple) {}

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
