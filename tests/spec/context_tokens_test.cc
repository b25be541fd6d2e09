#include "cost_model/spec/context_tokens.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

namespace tessera::spec {
namespace {

constexpr int64_t kSequence = 48;

ParallelSpec Context(int cp, ContextKind kind) {
  ParallelSpec parallel;
  parallel.context_parallel_size = cp;
  parallel.context_kind = kind;
  return parallel;
}

// Positions of a rank's tokens in their order.
std::vector<int64_t> PositionsOf(const ParallelSpec& parallel, int rank) {
  const base::TokenPositions positions = ContextPositions(parallel, kSequence, rank);
  std::vector<int64_t> all;
  for (int64_t i = 0; i < kSequence / parallel.context_parallel_size; ++i) {
    all.push_back(positions.Of(i));
  }
  return all;
}

TEST(ContextTokensTest, EveryTokenHasOneHolder) {
  for (const auto kind : {ContextKind::kRing, ContextKind::kAllGather, ContextKind::kAllToAll}) {
    for (const int cp : {1, 2, 3, 4}) {
      std::set<int64_t> held;
      for (int rank = 0; rank < cp; ++rank) {
        for (const int64_t position : PositionsOf(Context(cp, kind), rank)) {
          EXPECT_TRUE(held.insert(position).second) << position;
        }
      }
      EXPECT_EQ(held.size(), static_cast<size_t>(kSequence));
      EXPECT_EQ(*held.begin(), 0);
      EXPECT_EQ(*held.rbegin(), kSequence - 1);
    }
  }
}

// Of 48 tokens on two ranks four chunks of 12.
TEST(ContextTokensTest, ARankHoldsAnEarlyChunkAndALateOne) {
  const std::vector<int64_t> first = PositionsOf(Context(2, ContextKind::kRing), 0);
  const std::vector<int64_t> second = PositionsOf(Context(2, ContextKind::kRing), 1);
  EXPECT_EQ((std::vector<int64_t>{first[0], first[11], first[12], first[23]}),
            (std::vector<int64_t>{0, 11, 36, 47}));
  EXPECT_EQ((std::vector<int64_t>{second[0], second[11], second[12], second[23]}),
            (std::vector<int64_t>{12, 23, 24, 35}));
  EXPECT_EQ(PositionsOf(Context(2, ContextKind::kAllToAll), 1).front(), 24);
}

// Of any position, also with the tokens from one on alone.
TEST(ContextTokensTest, TheFirstTokenFromAPositionOnIsThatOfASearch) {
  for (const auto kind : {ContextKind::kRing, ContextKind::kAllToAll}) {
    for (int rank = 0; rank < 3; ++rank) {
      for (const int64_t skipped : {0, 5, 8, 11}) {
        const base::TokenPositions positions =
            ContextPositions(Context(3, kind), kSequence, rank).From(skipped);
        for (int64_t position = 0; position < kSequence; ++position) {
          int64_t first = 0;
          while (first < kSequence / 3 && positions.Of(first) < position) ++first;
          EXPECT_EQ(std::min(positions.FirstFrom(position), kSequence / 3), first) << position;
        }
      }
    }
  }
}

// Pairs of positions (query, key) of a part.
void AddPairs(const AttentionPart& part, const std::vector<int64_t>& queries,
              const std::vector<int64_t>& keys, std::multiset<std::pair<int64_t, int64_t>>& pairs) {
  const bool is_causal = part.mask == base::AttentionMask::kCausal;
  for (int64_t q = 0; q < part.num_queries; ++q) {
    const int64_t end = is_causal ? part.num_keys - part.num_queries + q + 1 : part.num_keys;
    for (int64_t k = 0; k < end; ++k) pairs.insert({queries[part.first_query + q], keys[k]});
  }
}

std::multiset<std::pair<int64_t, int64_t>> CausalPairs() {
  std::multiset<std::pair<int64_t, int64_t>> pairs;
  for (int64_t q = 0; q < kSequence; ++q) {
    for (int64_t k = 0; k <= q; ++k) pairs.insert({q, k});
  }
  return pairs;
}

TEST(ContextTokensTest, TheStepsOfARingMakeEveryCausalPairOnce) {
  for (const int cp : {2, 3, 4}) {
    const ParallelSpec parallel = Context(cp, ContextKind::kRing);
    for (const auto source_of : {RingSourceForward, RingSourceBackward}) {
      std::multiset<std::pair<int64_t, int64_t>> pairs;
      for (int rank = 0; rank < cp; ++rank) {
        for (int step = 0; step < cp; ++step) {
          const int source = source_of(rank, step, cp);
          AddPairs(RingPart(rank, source, kSequence / cp), PositionsOf(parallel, rank),
                   PositionsOf(parallel, source), pairs);
        }
      }
      EXPECT_EQ(pairs, CausalPairs()) << "cp " << cp;
    }
  }
}

TEST(ContextTokensTest, EachRankOfARingPassesOnWhatTheNextOneNeeds) {
  constexpr int kRanks = 4;
  for (const auto source_of : {RingSourceForward, RingSourceBackward}) {
    for (int rank = 0; rank < kRanks; ++rank) {
      for (int step = 0; step + 1 < kRanks; ++step) {
        EXPECT_EQ(source_of((rank + 1) % kRanks, step + 1, kRanks), source_of(rank, step, kRanks));
      }
    }
  }
  EXPECT_EQ(RingSourceForward(2, 0, kRanks), 2);
  EXPECT_EQ(RingSourceBackward(2, kRanks - 1, kRanks), 2);
}

TEST(ContextTokensTest, ChunksWithGatheredKeysMakeEveryCausalPairOnce) {
  std::vector<int64_t> keys;
  for (int64_t key = 0; key < kSequence; ++key) keys.push_back(key);
  for (const int cp : {2, 3, 4}) {
    std::multiset<std::pair<int64_t, int64_t>> pairs;
    for (int rank = 0; rank < cp; ++rank) {
      for (const bool is_late : {false, true}) {
        AddPairs(GatheredPart(rank, cp, kSequence / cp, is_late),
                 PositionsOf(Context(cp, ContextKind::kAllGather), rank), keys, pairs);
      }
    }
    EXPECT_EQ(pairs, CausalPairs()) << "cp " << cp;
  }
}

}  // namespace
}  // namespace tessera::spec
