// What the forward and the backward pass of attention share.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tessera::kernels {

// Queries are taken in blocks of this many rows. A block meets the keys up to its own last row:
// smaller blocks waste less above the diagonal, larger ones make better matrix products.
constexpr int64_t kQueryBlock = 64;

// The rows of one block of queries inside a sequence, and the keys that they see.
struct QueryBlock {
  int64_t begin = 0, num_rows = 0, num_keys = 0;
};

inline QueryBlock QueryBlockAt(int64_t index, int64_t sequence) {
  const int64_t begin = index * kQueryBlock;
  const int64_t end = std::min(sequence, begin + kQueryBlock);
  return {begin, end - begin, end};
}

}  // namespace tessera::kernels
