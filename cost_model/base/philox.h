// Counter-based random numbers: the value at an index depends on (key, index) alone, so every
// parallel layout draws the same numbers for the same element.
// Philox4x32-10: Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace tessera::base {

using PhiloxCounter = std::array<uint32_t, 4>;
using PhiloxKey = std::array<uint32_t, 2>;

// Multipliers of a round's two products, and what a round adds to the key's two words.
inline constexpr uint32_t kPhiloxMultiplier0 = 0xD2511F53;
inline constexpr uint32_t kPhiloxMultiplier1 = 0xCD9E8D57;
inline constexpr uint32_t kPhiloxWeyl0 = 0x9E3779B9;
inline constexpr uint32_t kPhiloxWeyl1 = 0xBB67AE85;
inline constexpr int kPhiloxRounds = 10;

PhiloxCounter Philox4x32(PhiloxCounter counter, PhiloxKey key);

// 64-bit key of (seed, name): FNV-1a over the name, mixed with the seed.
PhiloxKey MakePhiloxKey(uint64_t seed, std::string_view name);

// Standard normal draw number `index` of the stream `key` (Box-Muller over one Philox block per
// four draws).
float NormalAt(PhiloxKey key, uint64_t index);

// Fills out[i] = mean_0 normal * standard_deviation for the draws [first_index, first_index + n).
void FillNormal(PhiloxKey key, uint64_t first_index, int64_t n, float standard_deviation,
                float* out);

// Uniform draw in [0, 1) number `index` of the stream `key`.
double UniformAt(PhiloxKey key, uint64_t index);

}  // namespace tessera::base
