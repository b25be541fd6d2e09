#include "engine/data/data_blend.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "cost_model/base/check.h"
#include "engine/data/indexed_dataset_writer.h"
#include "engine/data/sample_source.h"
#include "tests/engine/data_test_files.h"

namespace tessera::engine {
namespace {

using test::Bytes;
using test::ConfigErrorOf;
using test::TestFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(BlendWordsTest, PathsStandAloneOrBehindTheirWeights) {
  EXPECT_THAT(BlendFromWords({"a"}), ElementsAre(BlendPart{.path = "a"}));
  EXPECT_THAT(BlendFromWords({"a", "b"}), ElementsAre(BlendPart{.path = "a"}, BlendPart{"b"}));
  EXPECT_THAT(BlendFromWords({"0.7", "a", "3e-1", "b"}),
              ElementsAre(BlendPart{.path = "a", .weight = 0.7}, BlendPart{"b", 0.3}));
  EXPECT_THAT(BlendFromWords({"a", "1", "b"}),
              ElementsAre(BlendPart{"a"}, BlendPart{"1"}, BlendPart{"b"}));
  EXPECT_EQ(ToString(BlendFromWords({"0.7", "a", "0.3", "b"})), "0.7 a 0.3 b");
}

TEST(BlendWordsTest, AWeightThatIsMissingOrNotAboveZeroIsNamed) {
  EXPECT_THAT(ConfigErrorOf([] {
                BlendFromWords({"0.7", "a", "b", "c"});
              }),
              HasSubstr("--data: found \"b\" before \"c\", expected a weight above 0"));
  for (const char* const weight : {"0", "-1", "inf", "nan"}) {
    EXPECT_THAT(ConfigErrorOf([&] {
                  BlendFromWords({weight, "a", "1", "b"});
                }),
                HasSubstr("found \"" + std::string(weight) + "\" before \"a\""));
  }
}

std::vector<int> DataSetsOf(const std::vector<double>& weights, int64_t num_samples) {
  const BlendIndex index = MakeBlendIndex(BlendShares(weights), num_samples);
  return {index.data_set.begin(), index.data_set.end()};
}

// Shares 1/2, 3/10, 1/5. What they lack at n = 0: 0.5 0.3 0.2; 1: -0.5 0.3 0.2; 2: 0 -0.4 0.4;
// 3: 0.5 -0.1 -0.4; 4: 0 0.2 -0.2; 5: 0.5 -0.5 0; 6: 0 -0.2 0.2; 7: 0.5 0.1 -0.6; 8: 0 0.4 -0.4;
// 9: 0.5 -0.3 -0.2.
TEST(BlendIndexTest, TheDataSetThatLacksMostIsNext) {
  EXPECT_THAT(DataSetsOf({5, 3, 2}, 10), ElementsAre(0, 1, 2, 0, 1, 0, 2, 0, 1, 0));
}

// Shares 1/4, 1/2, 1/4: at n = 1 the first and the third lack as much, 1/4.
TEST(BlendIndexTest, TheFirstOfEqualsIsNext) {
  EXPECT_THAT(DataSetsOf({1, 2, 1}, 4), ElementsAre(1, 0, 2, 1));
  EXPECT_THAT(DataSetsOf({1, 1}, 6), ElementsAre(0, 1, 0, 1, 0, 1));
}

TEST(BlendIndexTest, EachDataSetIsReadInItsOwnOrderAndShare) {
  const std::vector<double> shares = BlendShares(std::vector<double>{13, 1, 0.02, 7});
  const BlendIndex index = MakeBlendIndex(shares, 10'000);
  std::vector<uint32_t> num_taken(4, 0);
  for (size_t n = 0; n < 10'000; ++n) {
    const size_t data_set = index.data_set[n];
    EXPECT_EQ(index.sample[n], num_taken[data_set]++) << n;
    EXPECT_LE(num_taken[data_set], BlendSamplesOf(shares[data_set], static_cast<int64_t>(n + 1)));
  }
  for (size_t i = 0; i < 4; ++i) EXPECT_NEAR(num_taken[i], shares[i] * 10'000, 1) << i;
}

TEST(BlendIndexTest, ADataSetIsLaidOutForHalfAPercentMoreThanItsShare) {
  EXPECT_EQ(BlendSamplesOf(0.25, 4000), 1005);
  EXPECT_EQ(BlendSamplesOf(0.25, 4001), 1007);  // 1001 * 1.005 = 1006.005
  EXPECT_EQ(BlendSamplesOf(1, 1), 2);
}

class BlendedSourceTest : public ::testing::Test {
 protected:
  // `num_documents` documents of four tokens; those of document d are first + d.
  std::string WritePair(const std::string& name, int32_t first, int32_t num_documents) const {
    IndexedDatasetWriter writer(folder_.Path(name), TokenType::kUInt16);
    for (int32_t d = 0; d < num_documents; ++d) {
      writer.AddTokens(std::vector<int32_t>(4, first + d));
      writer.EndSequence();
      writer.EndDocument();
    }
    writer.Finish();
    return folder_.Path(name);
  }
  static std::vector<int32_t> Sample(const SampleSource& source, int64_t sample) {
    std::vector<int32_t> tokens(static_cast<size_t>(source.sequence_length() + 1));
    source.Read(sample, tokens.data());
    return tokens;
  }

  TestFolder folder_;
};

TEST_F(BlendedSourceTest, SamplesAreThoseOfTheDataSetsInTheBlendsOrder) {
  const std::string a = WritePair("a", 0, 10);
  const std::string b = WritePair("b", 500, 3);
  const auto blended = OpenSampleSource({.blend = {{a, 0.5}, {b, 0.25}, {a, 0.25}},
                                         .sequence_length = 4,
                                         .num_samples = 4000,
                                         .seed = 7});
  ASSERT_EQ(blended->num_samples(), 4000);
  EXPECT_EQ(blended->max_token(), 502);
  // Laid out for 0.5 % more than their shares of 4000.
  std::vector<std::unique_ptr<SampleSource>> parts;
  for (const auto& [path, num_samples] :
       {std::pair(a, 2010), std::pair(b, 1005), std::pair(a, 1005)}) {
    parts.push_back(OpenSampleSource(
        {.path = path, .sequence_length = 4, .num_samples = num_samples, .seed = 7}));
  }
  const BlendIndex index = MakeBlendIndex(std::vector<double>{0.5, 0.25, 0.25}, 4000);
  for (size_t n = 0; n < 4000; ++n) {
    ASSERT_EQ(Sample(*blended, static_cast<int64_t>(n)),
              Sample(*parts[index.data_set[n]], index.sample[n]))
        << n;
  }
  EXPECT_THROW(Sample(*blended, 4000), base::CheckFailure);
}

TEST_F(BlendedSourceTest, WithoutWeightsEachSampleOfOnePassIsReadOnce) {
  const std::string a = WritePair("a", 0, 9);
  const std::string b = WritePair("b", 500, 4);
  // Of 36 and of 16 tokens: 8 and 3 samples of 4 tokens and a label.
  const auto blended = OpenSampleSource({.blend = {{a}, {b}}, .sequence_length = 4});
  ASSERT_EQ(blended->num_samples(), 11);
  int num_of_b = 0;
  for (int64_t n = 0; n < 11; ++n) num_of_b += Sample(*blended, n).front() >= 500 ? 1 : 0;
  EXPECT_EQ(num_of_b, 3);
  EXPECT_THAT(ConfigErrorOf([&] {
                OpenSampleSource({.blend = {{a}, {b}}, .sequence_length = 4, .num_samples = 12});
              }),
              HasSubstr("found 11 samples in the training part of data sets without weights, "
                        "expected at least 12 (a weight before each path"));
}

TEST_F(BlendedSourceTest, SequentialDataStartsOverInsideABlend) {
  const std::string a = WritePair("a", 0, 3);  // two samples
  const std::string b = WritePair("b", 500, 9);
  const auto blended = OpenSampleSource({.blend = {{a, 1}, {b, 1}},
                                         .order = DataOrder::kSequential,
                                         .sequence_length = 4,
                                         .num_samples = 6});
  EXPECT_THAT(Sample(*blended, 0), ElementsAre(0, 0, 0, 0, 1));
  EXPECT_THAT(Sample(*blended, 1), ElementsAre(500, 500, 500, 500, 501));
  EXPECT_THAT(Sample(*blended, 2), ElementsAre(1, 1, 1, 1, 2));
  EXPECT_THAT(Sample(*blended, 3), ElementsAre(501, 501, 501, 501, 502));
  EXPECT_THAT(Sample(*blended, 4), ElementsAre(0, 0, 0, 0, 1));
}

TEST_F(BlendedSourceTest, APartReadsItsOwnDocumentsAlone) {
  const std::string a = WritePair("a", 0, 100);
  const std::string b = WritePair("b", 500, 50);
  const auto documents_of = [&](const DataSplit& split, SplitPart part) {
    const auto source = OpenSampleSource({.blend = {{a, 1}, {b, 1}},
                                          .split = split,
                                          .part = part,
                                          .sequence_length = 3,
                                          .num_samples = 600});
    std::set<int32_t> documents;
    for (int64_t n = 0; n < 600; ++n) {
      for (const int32_t token : Sample(*source, n)) documents.insert(token);
    }
    return documents;
  };
  const DataSplit split = DataSplitFromString("80,10,10");
  const auto expected = [](int32_t a_first, int32_t a_end, int32_t b_first, int32_t b_end) {
    std::set<int32_t> documents;
    for (int32_t d = a_first; d < a_end; ++d) documents.insert(d);
    for (int32_t d = b_first; d < b_end; ++d) documents.insert(500 + d);
    return documents;
  };
  EXPECT_EQ(documents_of(split, SplitPart::kTrain), expected(0, 80, 0, 40));
  EXPECT_EQ(documents_of(split, SplitPart::kValidation), expected(80, 90, 40, 45));
  EXPECT_EQ(documents_of(split, SplitPart::kTest), expected(90, 100, 45, 50));
  EXPECT_EQ(documents_of({}, SplitPart::kTrain), expected(0, 100, 0, 50));
}

TEST_F(BlendedSourceTest, AnEmptyPartIsNamed) {
  const std::string raw = folder_.Write("raw.u8", std::string(100, 'a'));
  EXPECT_THAT(ConfigErrorOf([&] {
                OpenSampleSource({.path = raw,
                                  .split = DataSplitFromString("98,1,1"),
                                  .part = SplitPart::kValidation,
                                  .sequence_length = 4,
                                  .num_samples = 1});
              }),
              HasSubstr("raw.u8: found 0 tokens in the 0 of 1 documents of the validation part"));
}

TEST_F(BlendedSourceTest, AnIdPastTheVocabularyIsNamedWithItsFile) {
  const std::string a = WritePair("a", 0, 10);
  const std::string b = WritePair("b", 500, 10);
  DataOptions options = {.blend = {{a, 1}, {b, 1}}, .sequence_length = 4, .num_samples = 10};
  options.vocab_size = 510;
  EXPECT_EQ(ConfigErrorOf([&] { OpenSampleSource(options); }), "no error");
  options.vocab_size = 509;
  EXPECT_THAT(ConfigErrorOf([&] { OpenSampleSource(options); }),
              HasSubstr("b: found token id 509, expected ids below the model's vocabulary of 509"));
  // Of a part, only the part counts.
  options.split = DataSplitFromString("9,1");
  EXPECT_EQ(ConfigErrorOf([&] { OpenSampleSource(options); }), "no error");
}

}  // namespace
}  // namespace tessera::engine
