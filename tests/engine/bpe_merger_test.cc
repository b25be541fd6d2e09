#include "engine/data/bpe_merger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace tessera::engine {
namespace {

using ::testing::ElementsAre;

// All bytes as their own ids, and what the merges make from 256 on.
class Vocabulary {
 public:
  explicit Vocabulary(const std::vector<std::pair<std::string, std::string>>& merges) {
    description_.path = "made up";
    for (int32_t byte = 0; byte < 256; ++byte) AddToken(std::string(1, static_cast<char>(byte)));
    for (const auto& [left, right] : merges) {
      AddToken(left + right);
      description_.merges.push_back({.left = left, .right = right});
    }
  }
  const BpeDescription& description() const { return description_; }
  const std::string& TextOf(int32_t id) const {
    return description_.vocabulary[static_cast<size_t>(id)].bytes;
  }

  // The algorithm as it is told: the pair of the lowest rank, the leftmost of equals.
  std::vector<std::string> MergePlainly(const std::string& piece) const {
    std::vector<std::string> symbols;
    for (const char c : piece) symbols.emplace_back(1, c);
    while (true) {
      size_t best = symbols.size();
      size_t best_rank = description_.merges.size();
      for (size_t i = 0; i + 1 < symbols.size(); ++i) {
        const size_t rank = RankOf(symbols[i], symbols[i + 1]);
        if (rank < best_rank) {
          best = i;
          best_rank = rank;
        }
      }
      if (best == symbols.size()) return symbols;
      symbols[best] += symbols[best + 1];
      symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
    }
  }

 private:
  void AddToken(const std::string& text) {
    auto& tokens = description_.vocabulary;
    if (std::any_of(tokens.begin(), tokens.end(),
                    [&](const BpeToken& token) { return token.bytes == text; })) {
      return;
    }
    tokens.push_back({.bytes = text, .id = static_cast<int32_t>(tokens.size())});
  }
  size_t RankOf(const std::string& left, const std::string& right) const {
    const auto& merges = description_.merges;
    // Of a pair that stands there twice the last counts.
    for (size_t rank = merges.size(); rank-- > 0;) {
      if (merges[rank].left == left && merges[rank].right == right) return rank;
    }
    return merges.size();
  }

  BpeDescription description_;
};

std::vector<std::string> Merge(const Vocabulary& made, const std::string& piece) {
  const BpeVocabulary vocabulary(made.description());
  std::vector<int32_t> tokens;
  BpeMerger(vocabulary).Encode(piece, tokens);
  std::vector<std::string> texts;
  for (const int32_t token : tokens) texts.push_back(made.TextOf(token));
  return texts;
}

TEST(BpeMergerTest, TheLowestRankGoesFirst) {
  const Vocabulary made({{"b", "c"}, {"a", "b"}, {"bc", "d"}, {"a", "bc"}});
  EXPECT_THAT(Merge(made, "abcd"), ElementsAre("a", "bcd"));
  EXPECT_THAT(Merge(made, "abc"), ElementsAre("abc"));
  EXPECT_THAT(Merge(made, "abab"), ElementsAre("ab", "ab"));
  EXPECT_THAT(Merge(made, ""), ElementsAre());
  EXPECT_THAT(Merge(made, "x"), ElementsAre("x"));
}

TEST(BpeMergerTest, OfEqualsTheLeftmostGoesFirst) {
  const Vocabulary made({{"a", "a"}, {"aa", "a"}});
  EXPECT_THAT(Merge(made, "aaa"), ElementsAre("aaa"));
  EXPECT_THAT(Merge(made, "aaaa"), ElementsAre("aa", "aa"));
  EXPECT_THAT(Merge(made, "aaaaa"), ElementsAre("aa", "aaa"));
}

TEST(BpeMergerTest, RandomMergesOfRandomPiecesAreThoseOfThePlainAlgorithm) {
  std::mt19937 random(5);
  for (int round = 0; round < 60; ++round) {
    // Each merge joins two tokens made so far, so that orders come about that no training makes.
    std::vector<std::string> tokens = {"a", "b", "c"};
    std::vector<std::pair<std::string, std::string>> merges;
    for (int i = 0; i < 12; ++i) {
      const std::string left = tokens[random() % tokens.size()];
      const std::string right = tokens[random() % tokens.size()];
      if (left.size() + right.size() > 9) continue;
      merges.emplace_back(left, right);
      tokens.push_back(left + right);
    }
    std::shuffle(merges.begin(), merges.end(), random);
    const Vocabulary made(merges);
    for (int piece_number = 0; piece_number < 40; ++piece_number) {
      std::string piece;
      for (uint32_t size = random() % 30; size > 0; --size) {
        piece += static_cast<char>('a' + random() % 3);
      }
      ASSERT_EQ(Merge(made, piece), made.MergePlainly(piece)) << piece << " in round " << round;
    }
  }
}

// 2^18 letters by doubling merges: a step for each pair of neighbours would be 2^36 steps.
TEST(BpeMergerTest, AVeryLongPieceIsNoTrap) {
  std::vector<std::pair<std::string, std::string>> merges;
  for (std::string half = "a"; half.size() < 64; half += half) merges.emplace_back(half, half);
  const Vocabulary made(merges);
  const std::vector<std::string> texts = Merge(made, std::string((1 << 18) + 5, 'a'));
  ASSERT_EQ(texts.size(), (1u << 12) + 2);  // 64 a token; the rest is 4 + 1
  EXPECT_EQ(texts[(1 << 12) - 1].size(), 64u);
  EXPECT_EQ(texts[1 << 12], "aaaa");
  EXPECT_EQ(texts.back(), "a");
}

}  // namespace
}  // namespace tessera::engine
