// Which part of its flat buffers a rank updates: ZeRO's shards.
#pragma once

#include <cstdint>
#include <vector>

#include "cost_model/spec/flat_layout.h"
#include "cost_model/spec/rank_layout.h"

namespace tessera::spec {

// A range of the flat buffer whose optimizer state lies at `state_offset` of the rank's.
struct OwnedRange {
  int64_t offset = 0;  // elements into the flat buffer
  int64_t num_elements = 0;
  int64_t state_offset = 0;  // elements into the optimizer state
  bool is_expert = false;
  // Of the ranks that own this very range the first one: what is counted or written once for all of
  // them is so there.
  bool is_first_holder = true;
  bool operator==(const OwnedRange&) const = default;
};

// Without sharding all of each buffer, with it the rank's part of every bucket, one after the
// other. Rajbhandari et al. 2020, arXiv:1910.02054, section 5.1.
// REQUIRES: FindViolations is empty.
std::vector<OwnedRange> OwnedRanges(const FlatLayout& layout, const ParallelSpec& parallel,
                                    const RankLayout& ranks, int rank);

// Elements of all ranges.
int64_t NumOwnedElements(const std::vector<OwnedRange>& owned);

}  // namespace tessera::spec
