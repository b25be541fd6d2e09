// The all-pairs cover against all rows there are.
#include "tests/testing/pairwise.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

namespace tessera::testing {
namespace {

std::set<ValuePair> PairsOf(const std::vector<CoverRow>& rows) {
  std::set<ValuePair> pairs;
  for (const CoverRow& row : rows) {
    for (int a = 0; a < static_cast<int>(row.size()); ++a) {
      for (int b = a + 1; b < static_cast<int>(row.size()); ++b) {
        pairs.insert({a, row[a], b, row[b]});
      }
    }
  }
  return pairs;
}

std::vector<CoverRow> AllRows(const std::vector<int>& num_values) {
  std::vector<CoverRow> rows = {{}};
  for (const int size : num_values) {
    std::vector<CoverRow> longer;
    for (const CoverRow& row : rows) {
      for (int value = 0; value < size; ++value) {
        longer.push_back(row);
        longer.back().push_back(value);
      }
    }
    rows = longer;
  }
  return rows;
}

int NoConflicts(const CoverRow& /*row*/) { return 0; }

// Two factors have no pairs but their rows: all of them are needed.
TEST(PairwiseTest, TwoFactorsNeedEveryCombination) {
  const PairwiseCover cover = MakePairwiseCover({2, 3}, NoConflicts, 1);
  std::vector<CoverRow> rows = cover.rows;
  std::sort(rows.begin(), rows.end());
  EXPECT_EQ(rows, (std::vector<CoverRow>{{0, 0}, {0, 1}, {0, 2}, {1, 0}, {1, 1}, {1, 2}}));
  EXPECT_TRUE(cover.impossible.empty());
}

// Three choices of two values: the four rows whose values add up to an even number hold all twelve
// pairs, and fewer than four cannot.
TEST(PairwiseTest, ThreeBinaryFactorsNeedFourRows) {
  const PairwiseCover cover = MakePairwiseCover({2, 2, 2}, NoConflicts, 1);
  EXPECT_EQ(PairsOf(cover.rows).size(), 12U);
  EXPECT_EQ(cover.rows.size(), 4U);
}

TEST(PairwiseTest, ManyFactorsNeedFewRows) {
  const std::vector<int> num_values(12, 3);  // 531441 combinations
  const PairwiseCover cover = MakePairwiseCover(num_values, NoConflicts, 1);
  EXPECT_EQ(PairsOf(cover.rows).size(), AllPairs(num_values).size());
  EXPECT_GE(cover.rows.size(), 9U);
  EXPECT_LE(cover.rows.size(), 25U);
}

// The first and the second choice must add up to the third: of the first two any pair is possible
// that sums to at most 1.
TEST(PairwiseTest, PairsThatARuleForbidsAreNamed) {
  const auto sum_differs = [](const CoverRow& row) { return row[0] + row[1] != row[2] ? 1 : 0; };
  const PairwiseCover cover = MakePairwiseCover({2, 2, 2}, sum_differs, 1);
  EXPECT_EQ(PairsOf(cover.rows), PairsOf({{0, 0, 0}, {0, 1, 1}, {1, 0, 1}}));
  EXPECT_EQ(cover.impossible, (std::vector<ValuePair>{{0, 1, 1, 1}, {0, 1, 2, 0}, {1, 1, 2, 0}}));
}

struct Rule {  // no row has these three values together
  int factors[3];
  int values[3];
};

TEST(PairwiseTest, EveryFeasiblePairIsInSomeRowUnderAnyRules) {
  std::mt19937 random(7);
  const auto below = [&](int bound) { return static_cast<int>(random() % bound); };
  for (int trial = 0; trial < 12; ++trial) {
    std::vector<int> num_values;
    for (int factor = 0; factor < 6; ++factor) num_values.push_back(1 + below(4));
    std::vector<Rule> rules(static_cast<size_t>(below(60)));
    for (Rule& rule : rules) {
      for (int i = 0; i < 3; ++i) {
        rule.factors[i] = below(6);
        rule.values[i] = below(num_values[rule.factors[i]]);
      }
    }
    const auto num_conflicts = [&](const CoverRow& row) {
      return static_cast<int>(std::count_if(rules.begin(), rules.end(), [&](const Rule& rule) {
        return row[rule.factors[0]] == rule.values[0] && row[rule.factors[1]] == rule.values[1] &&
               row[rule.factors[2]] == rule.values[2];
      }));
    };
    std::vector<CoverRow> feasible = AllRows(num_values);
    std::erase_if(feasible, [&](const CoverRow& row) { return num_conflicts(row) > 0; });
    const PairwiseCover cover = MakePairwiseCover(num_values, num_conflicts, trial);
    EXPECT_EQ(PairsOf(cover.rows), PairsOf(feasible)) << "trial " << trial;
    EXPECT_EQ(PairsOf(cover.rows).size() + cover.impossible.size(), AllPairs(num_values).size());
    for (const CoverRow& row : cover.rows) EXPECT_EQ(num_conflicts(row), 0);
  }
}

TEST(PairwiseTest, TheSameSeedGivesTheSameRows) {
  const std::vector<int> num_values = {3, 4, 2, 3};
  EXPECT_EQ(MakePairwiseCover(num_values, NoConflicts, 5).rows,
            MakePairwiseCover(num_values, NoConflicts, 5).rows);
}

}  // namespace
}  // namespace tessera::testing
