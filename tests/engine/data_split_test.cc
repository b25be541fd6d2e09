#include "engine/data/data_split.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "engine/data/numpy_sum.h"
#include "tests/engine/data_test_files.h"

namespace tessera::engine {
namespace {

using test::ConfigErrorOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<std::pair<int64_t, int64_t>> Ranges(const std::string& text, int64_t num_sequences) {
  std::vector<std::pair<int64_t, int64_t>> ranges;
  for (const SplitPart part : {SplitPart::kTrain, SplitPart::kValidation, SplitPart::kTest}) {
    const SequenceRange range = RangeOf(DataSplitFromString(text), part, num_sequences);
    ranges.emplace_back(range.first, range.count);
  }
  return ranges;
}

TEST(DataSplitTest, PartsFollowEachOtherInTheirShares) {
  EXPECT_THAT(Ranges("98,1,1", 1000),
              ElementsAre(std::pair(0, 980), std::pair(980, 10), std::pair(990, 10)));
  EXPECT_THAT(Ranges("3,1", 8), ElementsAre(std::pair(0, 6), std::pair(6, 2), std::pair(8, 0)));
  EXPECT_THAT(Ranges("0,0,2", 8), ElementsAre(std::pair(0, 0), std::pair(0, 0), std::pair(0, 8)));
  EXPECT_THAT(Ranges("0.5,.25,0.25", 4),
              ElementsAre(std::pair(0, 2), std::pair(2, 1), std::pair(3, 1)));
}

TEST(DataSplitTest, ABorderHalfWayLiesAtTheEvenSequence) {
  // 0.5 * 5 = 2.5 and 0.5 * 7 = 3.5: Python rounds them to 2 and 4.
  EXPECT_THAT(Ranges("1,1", 5), ElementsAre(std::pair(0, 2), std::pair(2, 3), std::pair(5, 0)));
  EXPECT_THAT(Ranges("1,1", 7), ElementsAre(std::pair(0, 4), std::pair(4, 3), std::pair(7, 0)));
}

TEST(DataSplitTest, PartsShareNoSequenceAndLoseNone) {
  for (const char* const text : {"969,30,1", "98,1,1", "1,1,1", "100", "0.7,0.2,0.1", "1,1e-9,3"}) {
    for (int64_t num_sequences = 0; num_sequences < 300; ++num_sequences) {
      int64_t end = 0;
      for (const auto& [first, count] : Ranges(text, num_sequences)) {
        EXPECT_EQ(first, end) << text << " of " << num_sequences;
        EXPECT_GE(count, 0) << text << " of " << num_sequences;
        end = first + count;
      }
      EXPECT_EQ(end, num_sequences) << text;
    }
  }
}

TEST(DataSplitTest, OtherTextIsNoSplit) {
  for (const char* const text :
       {"", "a", "1,", ",1", "1,,1", "1,1,1,1", "-1,2", "0,0,0", "inf", "nan", "1 1", "1,1,"}) {
    EXPECT_THAT(ConfigErrorOf([&] { DataSplitFromString(text); }),
                HasSubstr("split: found \"" + std::string(text) + "\", expected up to three"));
  }
}

TEST(NumpySumTest, FromEightNumbersOnEightSumsRunBesideEachOther) {
  // In order, each 1 is lost beside 2^53; numpy adds the two last ones to each other first.
  const double big = 9007199254740992.0;
  const std::vector<double> seven = {big, 1, 1, 1, 1, 1, 1};
  EXPECT_EQ(NumpySum(seven), big);
  const std::vector<double> eight = {big, 1, 1, 1, 1, 1, 1, 1};
  // ((big + 1) + (1 + 1)) + ((1 + 1) + (1 + 1)) = (big + 2) + 4
  EXPECT_EQ(NumpySum(eight), big + 6);
  EXPECT_EQ(NumpySum({}), 0);
}

TEST(NumpySumTest, LongRowsAreHalved) {
  // 256 numbers are two blocks of 128: the ones of the second block meet the large number as 128.
  std::vector<double> values(256, 1.0);
  values.front() = 1e17;  // whose neighbours are 16 away
  // First block: lane 0 loses its fifteen ones, the other lanes hold 16 each:
  // ((1e17 + 16) + 32) + 64 = 1e17 + 112; with the 128 of the second block 1e17 + 240.
  EXPECT_EQ(NumpySum(values), 1e17 + 240);
}

}  // namespace
}  // namespace tessera::engine
