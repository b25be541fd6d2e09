// Parts of a global tensor: what a rank holds, what a file holds, and the copy of what two parts
// share. This is what lets a checkpoint of one layout be read by any other.
#pragma once

#include <cstdint>
#include <vector>

namespace tessera::engine {

// A slice of one dimension, stored as a row-major tensor of its own, and of that a range of
// elements (a distributed optimizer owns ranges that start and end anywhere).
struct TensorPart {
  int dim = 0;        // the sliced dimension; a whole tensor is a slice of dimension 0
  int64_t begin = 0;  // global index range along it: [begin, begin + size)
  int64_t size = 0;
  int64_t stored_size = 0;  // of the dimension in storage; beyond `size` lies padding
  int64_t first = 0;        // stored elements [first, first + count), padding counted
  int64_t count = 0;
  bool operator==(const TensorPart&) const = default;
};

// All of a slice; `size` < `stored_size` where it is padded.
TensorPart WholeSlice(const std::vector<int64_t>& shape, int dim, int64_t begin, int64_t size,
                      int64_t stored_size);
TensorPart WholeTensor(const std::vector<int64_t>& shape);

// The same elements in a slice that is stored without padding.
TensorPart WithoutPadding(const std::vector<int64_t>& shape, const TensorPart& part);

// Whether both are slices of the same dimension, or one is whole.
bool AreComparable(const std::vector<int64_t>& shape, const TensorPart& a, const TensorPart& b);

// Copies the elements that both parts hold; padding is neither read nor written. `source` and
// `destination` point at the first element of their part. Returns how many were copied.
// `shape` is the global one. REQUIRES: AreComparable.
int64_t CopyOverlap(const std::vector<int64_t>& shape, const TensorPart& from, const float* source,
                    const TensorPart& to, float* destination);

// False only when CopyOverlap would copy nothing; cheap. REQUIRES: AreComparable.
bool MayOverlap(const std::vector<int64_t>& shape, const TensorPart& a, const TensorPart& b);

}  // namespace tessera::engine
