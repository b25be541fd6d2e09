// Merges the bytes of a piece of text into tokens.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/data/bpe_vocabulary.h"

namespace tessera::engine {

// Byte-pair encoding: of all neighbours that merge, the pair of the lowest rank is merged, the
// leftmost of equals, until none is left. Takes n log n steps for n bytes, so that a piece of
// millions of letters is no trap. Of one thread.
// Source: Sennrich et al. 2016, arXiv:1508.07909, section 3.2.
class BpeMerger {
 public:
  // The vocabulary must outlive the merger.
  explicit BpeMerger(const BpeVocabulary& vocabulary) : vocabulary_(vocabulary) {}

  // Appends the tokens of the piece.
  void Encode(std::string_view piece, std::vector<int32_t>& tokens);

 private:
  static constexpr int64_t kNone = -1;

  // A token of the piece at the place of its first byte.
  struct Symbol {
    int32_t id = 0;
    int64_t previous = kNone;
    int64_t next = kNone;
  };
  // A pair that may be merged, as it was when it was found.
  struct Candidate {
    int32_t rank = 0;
    int32_t left_id = 0;
    int32_t right_id = 0;
    int32_t merged_id = 0;
    int64_t place = 0;
  };
  static bool GoesLater(const Candidate& a, const Candidate& b) {
    return a.rank != b.rank ? a.rank > b.rank : a.place > b.place;
  }

  // Queues the symbol at `place` with its right neighbour, where they merge.
  void Consider(int64_t place);
  bool StillThere(const Candidate& candidate) const;
  void Apply(const Candidate& candidate);

  const BpeVocabulary& vocabulary_;
  std::vector<Symbol> symbols_;
  std::vector<Candidate> queue_;  // a heap
};

}  // namespace tessera::engine
