// Which tokens of a sequence a rank holds.
#pragma once

#include <algorithm>
#include <cstdint>

namespace tessera::base {

// Token i of a rank is token Of(i) of its sequence: of the rank's tokens the first `num_early` lie
// `early_shift` further on, the others `late_shift`. As it stands, a rank that holds whole
// sequences.
struct TokenPositions {
  int64_t num_early = 0;
  int64_t early_shift = 0, late_shift = 0;

  constexpr int64_t Of(int64_t token) const {
    return token + (token < num_early ? early_shift : late_shift);
  }
  // The first of the rank's tokens at or behind a position of the sequence: there may be none.
  // REQUIRES: positions ascend.
  constexpr int64_t FirstFrom(int64_t position) const {
    const int64_t early = std::max(position - early_shift, int64_t{0});
    if (early < num_early) return early;
    return std::max({position - late_shift, num_early, int64_t{0}});
  }
  // Of the rank's tokens from `first` on.
  constexpr TokenPositions From(int64_t first) const {
    return {.num_early = num_early - first,
            .early_shift = early_shift + first,
            .late_shift = late_shift + first};
  }
};

}  // namespace tessera::base
