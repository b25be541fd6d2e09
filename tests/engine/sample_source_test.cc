#include "engine/data/sample_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cost_model/base/check.h"
#include "engine/data/indexed_dataset_writer.h"
#include "tests/engine/data_test_files.h"

namespace tessera::engine {
namespace {

using test::Bytes;
using test::ConfigErrorOf;
using test::TestFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int32_t> Sample(const SampleSource& source, int64_t sample) {
  std::vector<int32_t> tokens(static_cast<size_t>(source.sequence_length() + 1));
  source.Read(sample, tokens.data());
  return tokens;
}

std::vector<int32_t> Range(int32_t first, int32_t count) {
  std::vector<int32_t> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

class SampleSourceTest : public ::testing::Test {
 protected:
  // Tokens 0, 1, 2, ... cut into documents of these lengths.
  std::string WritePair(const std::string& name, const std::vector<int32_t>& lengths) const {
    IndexedDatasetWriter writer(folder_.Path(name), TokenType::kUInt16);
    int32_t first = 0;
    for (const int32_t length : lengths) {
      writer.AddTokens(Range(first, length));
      writer.EndSequence();
      writer.EndDocument();
      first += length;
    }
    writer.Finish();
    return folder_.Path(name);
  }

  std::string OpenErrorOf(const DataOptions& options) const {
    return ConfigErrorOf([&] { OpenSampleSource(options); });
  }

  TestFolder folder_;
};

TEST_F(SampleSourceTest, SequentialSamplesFollowEachOtherAndStartOver) {
  const std::string path = folder_.Write("raw.u16", Bytes<uint16_t>(0, 1, 2, 3, 4, 5, 6, 7, 8, 9));
  const auto source = OpenSampleSource(
      {.path = path, .order = DataOrder::kSequential, .sequence_length = 4, .num_samples = 100});
  EXPECT_EQ(source->sequence_length(), 4);
  EXPECT_EQ(source->num_samples(), 2);  // floor((10 - 1) / 4)
  EXPECT_THAT(Sample(*source, 0), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(Sample(*source, 1), ElementsAre(4, 5, 6, 7, 8));
  EXPECT_THAT(Sample(*source, 2), ElementsAre(0, 1, 2, 3, 4));
  EXPECT_THAT(Sample(*source, 101), ElementsAre(4, 5, 6, 7, 8));
  EXPECT_EQ(source->max_token(), 9);
}

TEST_F(SampleSourceTest, DocumentsAreJoinedInTheOrderOfTheFile) {
  const std::string path = WritePair("pair", {5, 0, 3, 8, 1, 1, 4});
  const auto source =
      OpenSampleSource({.path = path, .order = DataOrder::kSequential, .sequence_length = 3});
  ASSERT_EQ(source->num_samples(), 7);  // floor((22 - 1) / 3)
  for (int32_t i = 0; i < 7; ++i) EXPECT_EQ(Sample(*source, i), Range(3 * i, 4)) << i;
  EXPECT_EQ(source->max_token(), 21);
}

// Documents [5, 3, 8, 4], sequence length 4, seed 1234, 7 samples: by Megatron-LM's algorithm on
// numpy 1.24.2 the documents are laid out 2 1 2 0 0 1 3 3 and the samples read 6 4 0 5 3 2 8 7 1.
TEST_F(SampleSourceTest, ShuffledSamplesAreMegatrons) {
  const std::string path = WritePair("pair", {5, 3, 8, 4});
  const auto source = OpenSampleSource({.path = path, .sequence_length = 4, .num_samples = 7});
  ASSERT_EQ(source->num_samples(), 9);
  std::vector<int32_t> laid_out;
  const std::vector<std::vector<int32_t>> documents = {Range(0, 5), Range(5, 3), Range(8, 8),
                                                       Range(16, 4)};
  for (const size_t document : {2, 1, 2, 0, 0, 1, 3, 3}) {
    laid_out.insert(laid_out.end(), documents[document].begin(), documents[document].end());
  }
  const std::vector<int> order = {6, 4, 0, 5, 3, 2, 8, 7, 1};
  for (size_t i = 0; i < order.size(); ++i) {
    const auto begin = laid_out.begin() + order[i] * 4;
    EXPECT_EQ(Sample(*source, static_cast<int64_t>(i)), std::vector(begin, begin + 5)) << i;
  }
}

TEST_F(SampleSourceTest, ShuffledRawDataIsOneDocumentWhoseSamplesArePermuted) {
  const std::string path = folder_.Write("raw.u8", Bytes<uint8_t>(0, 1, 2, 3, 4, 5, 6, 7, 8));
  const auto source = OpenSampleSource({.path = path, .sequence_length = 2, .num_samples = 4});
  ASSERT_EQ(source->num_samples(), 4);
  std::set<std::vector<int32_t>> samples;
  for (int64_t i = 0; i < 4; ++i) samples.insert(Sample(*source, i));
  EXPECT_THAT(samples, ElementsAre(Range(0, 3), Range(2, 3), Range(4, 3), Range(6, 3)));
}

TEST_F(SampleSourceTest, TheSeedAloneDecidesTheOrder) {
  const std::string path = WritePair("pair", std::vector<int32_t>(50, 20));
  const auto read = [&](uint64_t seed) {
    const auto source =
        OpenSampleSource({.path = path, .sequence_length = 8, .num_samples = 100, .seed = seed});
    std::vector<std::vector<int32_t>> samples;
    for (int64_t i = 0; i < 100; ++i) samples.push_back(Sample(*source, i));
    return samples;
  };
  EXPECT_EQ(read(1), read(1));
  EXPECT_NE(read(1), read(2));
}

TEST_F(SampleSourceTest, ShuffledSamplesPastTheEndAreOurBug) {
  const std::string path = WritePair("pair", {5, 3, 8, 4});
  const auto source = OpenSampleSource({.path = path, .sequence_length = 4, .num_samples = 4});
  EXPECT_THROW(Sample(*source, 4), base::CheckFailure);
  EXPECT_THROW(Sample(*source, -1), base::CheckFailure);
}

TEST_F(SampleSourceTest, DataTooShortForOneSampleIsRefused) {
  const std::string raw = folder_.Write("short.u8", "abcd");
  const std::string empty = folder_.Write("empty.u8", "");
  const std::string pair = WritePair("pair", {2, 2});
  const std::string none = WritePair("none", {});
  for (const DataOrder order : {DataOrder::kShuffled, DataOrder::kSequential}) {
    DataOptions options = {.path = raw, .order = order, .sequence_length = 4, .num_samples = 1};
    EXPECT_THAT(OpenErrorOf(options), HasSubstr("short.u8: found 4 tokens, expected at least 5"));
    options.path = empty;
    EXPECT_THAT(OpenErrorOf(options), HasSubstr("empty.u8: found an empty file"));
    options.path = pair;
    EXPECT_THAT(OpenErrorOf(options), HasSubstr("pair.bin: found 4 tokens, expected at least 5"));
    options.path = none;
    EXPECT_THAT(OpenErrorOf(options), HasSubstr("none.bin: found 0 tokens"));
    options = {.path = raw, .order = order, .sequence_length = 3, .num_samples = 1};
    EXPECT_EQ(OpenErrorOf(options), "no error");
  }
}

TEST_F(SampleSourceTest, OptionsOutOfRangeAreRefused) {
  const std::string raw = folder_.Write("raw.u8", "abcd");
  EXPECT_THAT(OpenErrorOf({.path = raw, .sequence_length = 0}), HasSubstr("sequence length"));
  EXPECT_THAT(OpenErrorOf({.path = raw, .sequence_length = 2, .seed = uint64_t{1} << 32}),
              HasSubstr("found 4294967296, expected 0 to 4294967295"));
  EXPECT_THAT(OpenErrorOf({.path = raw, .format = DataFormat::kLlmC, .sequence_length = 2}),
              HasSubstr("raw.u8: byte 4: found the end of the file"));
}

TEST_F(SampleSourceTest, ThreadsReadTheSameSamples) {
  const std::string path = WritePair("pair", std::vector<int32_t>(100, 37));
  const auto source = OpenSampleSource({.path = path, .sequence_length = 16, .num_samples = 200});
  std::vector<std::vector<int32_t>> first(200);
  for (int64_t i = 0; i < 200; ++i) first[static_cast<size_t>(i)] = Sample(*source, i);
  std::vector<int> num_equal(4, 0);
  {
    std::vector<std::jthread> threads;
    for (size_t t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int64_t i = 0; i < 200; ++i) {
          num_equal[t] += Sample(*source, i) == first[static_cast<size_t>(i)] ? 1 : 0;
        }
        EXPECT_EQ(source->max_token(), 3699);
      });
    }
  }
  EXPECT_THAT(num_equal, ::testing::Each(200));
}

// The file has 3 GiB but only its last pages exist.
TEST_F(SampleSourceTest, TokensBeyondTwoGibibytesAreReached) {
  constexpr int64_t kBinBytes = int64_t{3} << 30;
  constexpr int64_t kTokens = kBinBytes / 2;  // u16
  constexpr int32_t kFirstLength = 1 << 30;   // ends at byte 2^31
  const std::string magic("MMIDIDX\0\0", 9);
  folder_.Write("big.idx", magic + Bytes<uint64_t>(1) + Bytes<uint8_t>(8) + Bytes<uint64_t>(2, 3) +
                               Bytes<int32_t>(kFirstLength, kTokens - kFirstLength) +
                               Bytes<int64_t>(0, int64_t{1} << 31) + Bytes<int64_t>(0, 1, 2));
  const std::string bin = folder_.Write("big.bin", "");
  std::filesystem::resize_file(bin, kBinBytes);
  std::fstream file(bin, std::ios::in | std::ios::out | std::ios::binary);
  file.seekp((int64_t{1} << 31) - 2);
  file << Bytes<uint16_t>(41, 42);  // across the border of the documents
  file.seekp(kBinBytes - 10);
  file << Bytes<uint16_t>(1, 2, 3, 4, 5);
  file.close();

  const auto source =
      OpenSampleSource({.path = bin, .order = DataOrder::kSequential, .sequence_length = 4});
  EXPECT_EQ(source->num_samples(), (kTokens - 1) / 4);
  EXPECT_THAT(Sample(*source, kFirstLength / 4 - 1), ElementsAre(0, 0, 0, 41, 42));
  EXPECT_THAT(Sample(*source, source->num_samples() - 1), ElementsAre(0, 0, 0, 1, 2));
  // As bytes the same file has samples past 2^31.
  const auto raw = OpenSampleSource({.path = bin,
                                     .format = DataFormat::kRawU8,
                                     .order = DataOrder::kSequential,
                                     .sequence_length = 9});
  EXPECT_EQ(raw->num_samples(), (kBinBytes - 1) / 9);
  EXPECT_THAT(Sample(*raw, raw->num_samples() - 1), ElementsAre(0, 0, 1, 0, 2, 0, 3, 0, 4, 0));
}

}  // namespace
}  // namespace tessera::engine
