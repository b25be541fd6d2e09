// Which tokens of a sequence a rank holds.
#pragma once

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
  // Of the rank's tokens from `first` on.
  constexpr TokenPositions From(int64_t first) const {
    return {.num_early = num_early - first,
            .early_shift = early_shift + first,
            .late_shift = late_shift + first};
  }
};

}  // namespace tessera::base
