#include "engine/tensor/arena.h"

#include <iterator>

#include "cost_model/base/check.h"
#include "cost_model/base/math.h"

namespace tessera::engine {
namespace {

int64_t Rounded(int64_t num_bytes) { return base::RoundUp(num_bytes, Arena::kAlignmentBytes); }

}  // namespace

Arena::Arena(int64_t capacity_bytes) {
  const int64_t usable_bytes = capacity_bytes / kAlignmentBytes * kAlignmentBytes;
  if (usable_bytes > 0) gaps_[0] = usable_bytes;
}

std::optional<int64_t> Arena::Take(int64_t num_bytes, Lifetime lifetime) {
  const int64_t needed = Rounded(num_bytes);
  auto best = gaps_.end();
  for (auto gap = gaps_.begin(); gap != gaps_.end(); ++gap) {
    if (gap->second < needed) continue;
    const bool is_better =
        best == gaps_.end() || lifetime == Lifetime::kPass || gap->second < best->second;
    if (is_better) best = gap;
  }
  if (best == gaps_.end()) return std::nullopt;
  const auto [begin, size] = *best;
  gaps_.erase(best);
  const bool at_end = lifetime == Lifetime::kPass;
  if (size > needed) gaps_[at_end ? begin : begin + needed] = size - needed;
  return at_end ? begin + size - needed : begin;
}

void Arena::Give(int64_t offset, int64_t num_bytes) {
  auto next = gaps_.lower_bound(offset);
  int64_t size = Rounded(num_bytes);
  TESSERA_CHECK(next == gaps_.end() || offset + size <= next->first, "block at ", offset,
                " given back twice");
  if (next != gaps_.end() && next->first == offset + size) {
    size += next->second;
    next = gaps_.erase(next);
  }
  if (next != gaps_.begin()) {
    const auto before = std::prev(next);
    TESSERA_CHECK(before->first + before->second <= offset, "block at ", offset,
                  " given back twice");
    if (before->first + before->second == offset) {
      before->second += size;
      return;
    }
  }
  gaps_[offset] = size;
}

}  // namespace tessera::engine
