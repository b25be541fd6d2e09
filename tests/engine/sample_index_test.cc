#include "engine/data/sample_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>
#include <vector>

#include "engine/data/numpy_random.h"
#include "tests/engine/data_test_files.h"

namespace tessera::engine {
namespace {

using test::ConfigErrorOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;

std::vector<uint32_t> Iota(size_t size) {
  std::vector<uint32_t> values(size);
  std::iota(values.begin(), values.end(), 0u);
  return values;
}

std::vector<SampleStart> Starts(const SampleIndex& index) {
  std::vector<SampleStart> starts;
  for (int64_t k = 0; k <= index.num_samples; ++k) starts.push_back(index.StartOf(k));
  return starts;
}

TEST(NumpyRandomTest, ShufflesAsNumpyDoes) {
  // numpy 1.24.2: RandomState(1234).shuffle(arange(10)), then .shuffle(arange(16)).
  NumpyRandomState random(1234);
  std::vector<uint32_t> values = Iota(10);
  random.Shuffle(values);
  EXPECT_THAT(values, ElementsAre(7, 2, 9, 1, 0, 8, 4, 5, 6, 3));
  values = Iota(16);
  random.Shuffle(values);
  EXPECT_THAT(values, ElementsAre(7, 13, 2, 3, 1, 15, 5, 4, 0, 8, 6, 14, 12, 11, 10, 9));
}

TEST(NumpyRandomTest, NothingAndOneElementDrawNothing) {
  NumpyRandomState random(1234);
  std::vector<uint32_t> values;
  random.Shuffle(values);
  values = {5};
  random.Shuffle(values);
  values = Iota(10);
  random.Shuffle(values);
  EXPECT_THAT(values, ElementsAre(7, 2, 9, 1, 0, 8, 4, 5, 6, 3));
}

// The next three tests' values were measured with Megatron-LM's algorithm run on numpy 1.24.2.
TEST(SampleIndexTest, OneEpochIsAsMegatronBuildsIt) {
  const std::vector<int64_t> lengths = {5, 3, 8, 4};
  const SampleIndex index = MakeShuffledIndex(lengths, 4, {.num_samples = 4, .seed = 1234});
  EXPECT_EQ(index.num_epochs, 1);
  EXPECT_THAT(index.document_index, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Starts(index), ElementsAre(SampleStart{0, 0}, SampleStart{0, 4}, SampleStart{2, 0},
                                         SampleStart{2, 4}, SampleStart{3, 0}));
  EXPECT_THAT(index.shuffle_index, ElementsAre(1, 2, 3, 0));
}

TEST(SampleIndexTest, TwoEpochsAreShuffledTogetherWhereMostOfTheSecondIsNeeded) {
  const std::vector<int64_t> lengths = {5, 3, 8, 4};
  const SampleIndex index = MakeShuffledIndex(lengths, 4, {.num_samples = 7, .seed = 1234});
  EXPECT_EQ(index.num_epochs, 2);
  EXPECT_FALSE(index.separate_final_epoch);
  EXPECT_THAT(index.document_index, ElementsAre(2, 1, 2, 0, 0, 1, 3, 3));
  EXPECT_THAT(Starts(index), ElementsAre(SampleStart{0, 0}, SampleStart{0, 4}, SampleStart{1, 0},
                                         SampleStart{2, 1}, SampleStart{2, 5}, SampleStart{3, 1},
                                         SampleStart{4, 0}, SampleStart{4, 4}, SampleStart{6, 0},
                                         SampleStart{7, 0}));
  EXPECT_THAT(index.shuffle_index, ElementsAre(6, 4, 0, 5, 3, 2, 8, 7, 1));
}

TEST(SampleIndexTest, TheFinalEpochIsShuffledByItselfWhereLittleOfItIsNeeded) {
  const std::vector<int64_t> lengths = {50, 30, 80, 40};
  const SampleIndex index = MakeShuffledIndex(lengths, 4, {.num_samples = 60, .seed = 1234});
  EXPECT_EQ(index.num_epochs, 2);
  EXPECT_TRUE(index.separate_final_epoch);
  EXPECT_THAT(index.document_index, ElementsAre(0, 1, 2, 3, 1, 2, 3, 0));
  ASSERT_EQ(index.num_samples, 99);
  const std::vector<uint32_t>& shuffle = index.shuffle_index;
  EXPECT_THAT(std::vector(shuffle.begin(), shuffle.begin() + 8),
              ElementsAre(27, 40, 20, 6, 29, 8, 31, 48));
  EXPECT_THAT(std::vector(shuffle.end() - 8, shuffle.end()),
              ElementsAre(68, 75, 71, 55, 93, 57, 90, 65));
}

// Megatron-LM's own walk (helpers.cpp): from each sample's last token, which the next one shares.
std::vector<SampleStart> WalkSamples(const std::vector<int64_t>& lengths,
                                     const std::vector<uint32_t>& documents,
                                     int64_t sequence_length, int64_t num_samples) {
  SampleStart at;
  // The first sample alone may name a place without tokens there; the tokens are the same.
  while (lengths[documents[static_cast<size_t>(at.place)]] == 0) ++at.place;
  std::vector<SampleStart> starts = {at};
  while (static_cast<int64_t>(starts.size()) <= num_samples) {
    int64_t missing = sequence_length + 1;
    while (missing > 0) {
      const int64_t left = lengths[documents[static_cast<size_t>(at.place)]] - at.offset;
      missing -= left;
      if (missing <= 0) {
        at.offset += missing + left - 1;
      } else {
        at = {.place = at.place + 1, .offset = 0};
      }
    }
    starts.push_back(at);
  }
  return starts;
}

TEST(SampleIndexTest, StartsAreThoseOfTheGreedyWalkOverAnyLengths) {
  NumpyRandomState random(99);
  for (int round = 0; round < 30; ++round) {
    std::vector<uint32_t> shuffled = Iota(40);  // with sequences of no tokens and of one
    random.Shuffle(shuffled);
    std::vector<int64_t> lengths;
    for (const uint32_t value : shuffled) lengths.push_back(value < 20 ? value % 3 : value);
    for (const int64_t sequence_length : {1, 2, 7, 64}) {
      const SampleIndex index = MakeShuffledIndex(
          lengths, sequence_length, {.num_samples = 100, .seed = static_cast<uint32_t>(round)});
      EXPECT_GE(index.num_samples, 100);
      std::vector<SampleStart> starts = Starts(index);
      EXPECT_THAT(starts, ElementsAreArray(WalkSamples(lengths, index.document_index,
                                                       sequence_length, index.num_samples)))
          << "round " << round << ", sequence length " << sequence_length;
    }
  }
}

TEST(SampleIndexTest, EveryEpochReadsEverySequenceAndEverySampleOnce) {
  const std::vector<int64_t> lengths = {50, 30, 80, 40};
  for (const int64_t num_samples : {0, 1, 49, 50, 60, 90, 500}) {
    const SampleIndex index =
        MakeShuffledIndex(lengths, 4, {.num_samples = num_samples, .seed = 5});
    std::vector<int64_t> reads(lengths.size(), 0);
    for (const uint32_t sequence : index.document_index) ++reads[sequence];
    EXPECT_THAT(reads, ::testing::Each(index.num_epochs)) << num_samples;
    const std::set<uint32_t> samples(index.shuffle_index.begin(), index.shuffle_index.end());
    EXPECT_EQ(static_cast<int64_t>(samples.size()), index.num_samples) << num_samples;
    EXPECT_EQ(*samples.rbegin() + 1, index.num_samples) << num_samples;
  }
}

TEST(SampleIndexTest, ZeroSamplesMeansOneEpoch) {
  const std::vector<int64_t> lengths = {50, 30, 80, 40};
  const SampleIndex index = MakeShuffledIndex(lengths, 4, {.num_samples = 0});
  EXPECT_EQ(index.num_epochs, 1);
  EXPECT_EQ(index.num_samples, (200 - 1) / 4);
}

TEST(SampleIndexTest, FileOrderIsTheIdentity) {
  const std::vector<int64_t> lengths = {5, 3, 8, 4};
  const SampleIndex index = MakeSequentialIndex(lengths, 4);
  EXPECT_EQ(index.num_samples, 4);
  EXPECT_THAT(index.document_index, ElementsAre(0, 1, 2, 3));
  EXPECT_TRUE(index.shuffle_index.empty());
  EXPECT_EQ(index.StartOf(1), (SampleStart{0, 4}));
  EXPECT_EQ(index.StartOf(2), (SampleStart{2, 0}));
}

TEST(SampleIndexTest, OneSequenceBeyondThirtyTwoBitsIsCounted) {
  const std::vector<int64_t> lengths = {int64_t{5} << 30};
  const SampleIndex index = MakeSequentialIndex(lengths, 1 << 20);
  EXPECT_EQ(index.num_samples, 5 * 1024 - 1);
  EXPECT_EQ(index.StartOf(5000), (SampleStart{0, int64_t{5000} << 20}));
}

TEST(SampleIndexTest, MoreSamplesThanTheIndexHoldsAreRefused) {
  const std::vector<int64_t> lengths = {50, 30};
  for (const int64_t num_samples : {int64_t{1} << 40, int64_t{1} << 62}) {
    EXPECT_THAT(ConfigErrorOf([&] {
                  MakeShuffledIndex(lengths, 4, {.num_samples = num_samples, .seed = 1});
                }),
                HasSubstr("expected fewer than 4294967293"))
        << num_samples;
  }
}

}  // namespace
}  // namespace tessera::engine
