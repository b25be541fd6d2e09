#include "engine/data/bpe_merger.h"

#include <algorithm>

namespace tessera::engine {
namespace {

// The id of a symbol that has become part of its left neighbour.
constexpr int32_t kMergedAway = -1;

}  // namespace

void BpeMerger::Encode(std::string_view piece, std::vector<int32_t>& tokens) {
  const auto size = static_cast<int64_t>(piece.size());
  symbols_.clear();
  for (int64_t i = 0; i < size; ++i) {
    symbols_.push_back({.id = vocabulary_.IdOfByte(piece[static_cast<size_t>(i)]),
                        .previous = i - 1,
                        .next = i + 1 < size ? i + 1 : kNone});
  }
  queue_.clear();
  for (int64_t i = 0; i < size; ++i) Consider(i);
  while (!queue_.empty()) {
    std::pop_heap(queue_.begin(), queue_.end(), GoesLater);
    const Candidate candidate = queue_.back();
    queue_.pop_back();
    if (StillThere(candidate)) Apply(candidate);
  }
  for (int64_t i = size > 0 ? 0 : kNone; i != kNone; i = symbols_[static_cast<size_t>(i)].next) {
    tokens.push_back(symbols_[static_cast<size_t>(i)].id);
  }
}

void BpeMerger::Consider(int64_t place) {
  if (place == kNone) return;
  const Symbol& left = symbols_[static_cast<size_t>(place)];
  if (left.next == kNone) return;
  const Symbol& right = symbols_[static_cast<size_t>(left.next)];
  const BpeVocabulary::Merge* const merge = vocabulary_.FindMerge(left.id, right.id);
  if (merge == nullptr) return;
  queue_.push_back({.rank = merge->rank,
                    .left_id = left.id,
                    .right_id = right.id,
                    .merged_id = merge->id,
                    .place = place});
  std::push_heap(queue_.begin(), queue_.end(), GoesLater);
}

bool BpeMerger::StillThere(const Candidate& candidate) const {
  const Symbol& left = symbols_[static_cast<size_t>(candidate.place)];
  return left.id == candidate.left_id && left.next != kNone &&
         symbols_[static_cast<size_t>(left.next)].id == candidate.right_id;
}

void BpeMerger::Apply(const Candidate& candidate) {
  Symbol& left = symbols_[static_cast<size_t>(candidate.place)];
  Symbol& right = symbols_[static_cast<size_t>(left.next)];
  left.id = candidate.merged_id;
  left.next = right.next;
  right.id = kMergedAway;
  if (left.next != kNone) symbols_[static_cast<size_t>(left.next)].previous = candidate.place;
  Consider(left.previous);
  Consider(candidate.place);
}

}  // namespace tessera::engine
