#include "tests/testing/pairwise.h"

#include <optional>
#include <random>
#include <utility>

#include "cost_model/base/check.h"

namespace tessera::testing {
namespace {

constexpr int kCandidates = 12;      // rows tried for each pair, of which the best stays
constexpr int kMoreCandidates = 40;  // tried on until one has no conflict
constexpr int kRepairMoves = 200;    // changes of one value before a candidate is given up

class Coverer {
 public:
  Coverer(const std::vector<int>& num_values,
          const std::function<int(const CoverRow&)>& num_conflicts, uint32_t seed)
      : num_values_(num_values), num_conflicts_(num_conflicts), random_(seed) {
    for (const int size : num_values) {
      first_id_.push_back(num_ids_);
      num_ids_ += size;
    }
    is_possible_.resize(static_cast<size_t>(num_ids_));
    is_open_.assign(static_cast<size_t>(num_ids_) * num_ids_, true);
  }

  PairwiseCover Cover(const std::vector<ValuePair>& pairs) && {
    PairwiseCover cover;
    for (const ValuePair& pair : pairs) {
      if (!IsOpen(pair)) continue;
      const std::optional<CoverRow> row = BestRowWith(pair);
      if (row) {
        Close(*row);
        cover.rows.push_back(*row);
      } else {
        cover.impossible.push_back(pair);
      }
    }
    std::erase_if(cover.impossible, [&](const ValuePair& pair) { return !IsOpen(pair); });
    return cover;
  }

 private:
  // Not std::uniform_int_distribution, which differs between standard libraries.
  int RandomBelow(int bound) { return static_cast<int>(random_() % static_cast<uint32_t>(bound)); }

  size_t IndexOf(int first_factor, int first_value, int second_factor, int second_value) const {
    return static_cast<size_t>(first_id_[first_factor] + first_value) * num_ids_ +
           first_id_[second_factor] + second_value;
  }
  bool IsOpen(const ValuePair& pair) const {
    return is_open_[IndexOf(pair.first_factor, pair.first_value, pair.second_factor,
                            pair.second_value)];
  }

  template <typename Visit>
  void ForEachPairOf(const CoverRow& row, const Visit& visit) const {
    const int num_factors = static_cast<int>(row.size());
    for (int a = 0; a < num_factors; ++a) {
      for (int b = a + 1; b < num_factors; ++b) visit(IndexOf(a, row[a], b, row[b]));
    }
  }

  void Close(const CoverRow& row) {
    ForEachPairOf(row, [&](size_t index) { is_open_[index] = false; });
  }

  // Pairs of the row that no other row has yet.
  int GainOf(const CoverRow& row) const {
    int gain = 0;
    ForEachPairOf(row, [&](size_t index) { gain += is_open_[index] ? 1 : 0; });
    return gain;
  }

  // Whether any row has the value at all: asked once a value, before its pairs.
  bool IsPossible(int factor, int value) {
    std::optional<bool>& known = is_possible_[static_cast<size_t>(first_id_[factor] + value)];
    if (known) return *known;
    known = false;
    for (int i = 0; i < kMoreCandidates && !*known; ++i) {
      CoverRow row = RandomRowWith({factor, value, factor, value});
      known = Repair(row, {factor, value, factor, value});
    }
    return *known;
  }

  std::optional<CoverRow> BestRowWith(const ValuePair& pair) {
    std::optional<CoverRow> best;
    if (!IsPossible(pair.first_factor, pair.first_value) ||
        !IsPossible(pair.second_factor, pair.second_value)) {
      return best;
    }
    int best_gain = 0;
    for (int i = 0; i < kMoreCandidates && (i < kCandidates || !best); ++i) {
      CoverRow row = RandomRowWith(pair);
      if (!Repair(row, pair)) continue;
      const int gain = Improve(row, pair);
      if (gain <= best_gain) continue;
      best = row;
      best_gain = gain;
    }
    return best;
  }

  CoverRow RandomRowWith(const ValuePair& pair) {
    CoverRow row;
    for (const int size : num_values_) row.push_back(RandomBelow(size));
    row[pair.first_factor] = pair.first_value;
    row[pair.second_factor] = pair.second_value;
    return row;
  }

  // Changes one value after the other, of all but the pair's, where that makes no more conflicts.
  // Returns whether none is left.
  bool Repair(CoverRow& row, const ValuePair& pair) {
    int conflicts = num_conflicts_(row);
    for (int move = 0; move < kRepairMoves && conflicts > 0; ++move) {
      const int factor = RandomBelow(static_cast<int>(row.size()));
      if (factor == pair.first_factor || factor == pair.second_factor) continue;
      const int before = std::exchange(row[factor], RandomBelow(num_values_[factor]));
      if (row[factor] == before) continue;
      const int now = num_conflicts_(row);
      if (now > conflicts) {
        row[factor] = before;
      } else {
        conflicts = now;
      }
    }
    return conflicts == 0;
  }

  // Makes the changes of one value that cover more pairs without a conflict, until there is none.
  // Returns how many the row covers.
  int Improve(CoverRow& row, const ValuePair& pair) const {
    int gain = GainOf(row);
    bool is_better = true;
    while (is_better) {
      is_better = false;
      for (int factor = 0; factor < static_cast<int>(row.size()); ++factor) {
        if (factor == pair.first_factor || factor == pair.second_factor) continue;
        for (int value = 0; value < num_values_[factor]; ++value) {
          const int before = std::exchange(row[factor], value);
          const int now = GainOf(row);
          if (now > gain && num_conflicts_(row) == 0) {
            gain = now;
            is_better = true;
          } else {
            row[factor] = before;
          }
        }
      }
    }
    return gain;
  }

  const std::vector<int>& num_values_;
  const std::function<int(const CoverRow&)>& num_conflicts_;
  std::mt19937 random_;
  std::vector<int> first_id_;  // values are numbered through; of each factor's first
  int num_ids_ = 0;
  std::vector<std::optional<bool>> is_possible_;  // by a value's number
  std::vector<bool> is_open_;  // by the numbers of two values: whether no row has them both yet
};

}  // namespace

std::vector<ValuePair> AllPairs(const std::vector<int>& num_values) {
  std::vector<ValuePair> pairs;
  const int num_factors = static_cast<int>(num_values.size());
  for (int a = 0; a < num_factors; ++a) {
    for (int b = a + 1; b < num_factors; ++b) {
      for (int x = 0; x < num_values[a]; ++x) {
        for (int y = 0; y < num_values[b]; ++y) pairs.push_back({a, x, b, y});
      }
    }
  }
  return pairs;
}

PairwiseCover MakePairwiseCover(const std::vector<int>& num_values,
                                const std::function<int(const CoverRow&)>& num_conflicts,
                                uint32_t seed) {
  return CoverPairs(AllPairs(num_values), num_values, num_conflicts, seed);
}

PairwiseCover CoverPairs(const std::vector<ValuePair>& pairs, const std::vector<int>& num_values,
                         const std::function<int(const CoverRow&)>& num_conflicts, uint32_t seed) {
  for (const int size : num_values) TESSERA_CHECK(size >= 1, "a factor of ", size, " values");
  return Coverer(num_values, num_conflicts, seed).Cover(pairs);
}

}  // namespace tessera::testing
