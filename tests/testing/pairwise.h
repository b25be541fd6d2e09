// Few rows in which every two choices meet: an all-pairs cover under constraints.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <vector>

namespace tessera::testing {

// The chosen value of each factor, by index.
using CoverRow = std::vector<int>;

// Two values of different factors. `first_factor` < `second_factor`.
struct ValuePair {
  int first_factor = 0;
  int first_value = 0;
  int second_factor = 0;
  int second_value = 0;
  auto operator<=>(const ValuePair&) const = default;
};

struct PairwiseCover {
  std::vector<CoverRow> rows;         // without conflicts
  std::vector<ValuePair> impossible;  // pairs for which no row without conflicts was found
};

// Every pair of values of factors of so many values, in order.
std::vector<ValuePair> AllPairs(const std::vector<int>& num_values);

// Rows one after the other, each built round a pair that no row has yet: of several candidates the
// one that covers most new pairs (AETG: Cohen et al. 1997, IEEE Transactions on Software
// Engineering 23(7)). A candidate with conflicts is repaired by changing one value at a time: the
// change that leaves fewest conflicts and, of these, covers most; a random one where none is
// better. `num_conflicts(row)`: how many rules it breaks; 0 for a row that can be. The same
// arguments give the same rows on every machine. Each value of num_values is at least 1.
PairwiseCover MakePairwiseCover(const std::vector<int>& num_values,
                                const std::function<int(const CoverRow&)>& num_conflicts,
                                uint32_t seed);

// The same for some of the pairs.
PairwiseCover CoverPairs(const std::vector<ValuePair>& pairs, const std::vector<int>& num_values,
                         const std::function<int(const CoverRow&)>& num_conflicts, uint32_t seed);

}  // namespace tessera::testing
