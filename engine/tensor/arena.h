// Places blocks in one range of memory. Knows offsets alone, no memory.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

namespace tessera::engine {

// How long a block is wanted. Blocks of different lifetimes lie at the two ends of an arena, so
// that those that come and go leave no gaps between those that stay.
enum class Lifetime : uint8_t { kPass, kStep };

// An arena for so many predicted bytes: 1/64 more, and 1 MiB, for blocks rounded up to the
// alignment and gaps that no block fits.
constexpr int64_t ArenaBytesFor(int64_t predicted_bytes) {
  return predicted_bytes + predicted_bytes / 64 + (int64_t{1} << 20);
}

// The same calls in the same order give the same offsets. Blocks that stay go into the smallest gap
// that holds them, the others into the highest one, at its upper end. Gaps that meet become one.
class Arena {
 public:
  // Every offset is a multiple of it, which all vector accesses and all libraries are content with;
  // a block takes a multiple of it.
  static constexpr int64_t kAlignmentBytes = 256;

  explicit Arena(int64_t capacity_bytes);

  // Nothing where no gap holds the block.
  std::optional<int64_t> Take(int64_t num_bytes, Lifetime lifetime);
  // REQUIRES: `offset` was taken with `num_bytes` and not given back since.
  void Give(int64_t offset, int64_t num_bytes);

 private:
  std::map<int64_t, int64_t> gaps_;  // bytes by offset; no two touch
};

}  // namespace tessera::engine
