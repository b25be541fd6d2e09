#include "engine/data/indexed_dataset.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "cost_model/base/check.h"
#include "engine/data/indexed_dataset_writer.h"
#include "tests/engine/data_test_files.h"

namespace tessera::engine {
namespace {

using test::Bytes;
using test::ConfigErrorOf;
using test::ReadFile;
using test::TestFolder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kMagic("MMIDIDX\0\0", 9);

// The documents {10 11 12 | 13}, {} and {14 15} as u16, laid out by hand from the format's table.
const std::string kBin = Bytes<uint16_t>(10, 11, 12, 13, 14, 15);
const std::string kHeader =
    kMagic + Bytes<uint64_t>(1) + Bytes<uint8_t>(8) + Bytes<uint64_t>(3) + Bytes<uint64_t>(4);
const std::string kIdx =
    kHeader + Bytes<int32_t>(3, 1, 2) + Bytes<int64_t>(0, 6, 8) + Bytes<int64_t>(0, 2, 2, 3);

std::vector<int32_t> TokensOf(const TokenStore& store, int64_t sequence) {
  const TokenView view = store.Sequence(sequence);
  std::vector<int32_t> tokens(static_cast<size_t>(view.num_tokens));
  CopyTokens(view, 0, view.num_tokens, tokens.data());
  return tokens;
}

class IndexedDatasetTest : public ::testing::Test {
 protected:
  std::string ErrorOf(const std::string& idx, const std::string& bin = kBin) const {
    folder_.Write("data.idx", idx);
    folder_.Write("data.bin", bin);
    return ConfigErrorOf([&] { IndexedDataset(folder_.Path("data")); });
  }
  // kIdx with some bytes replaced.
  static std::string Patched(size_t offset, const std::string& bytes) {
    std::string idx = kIdx;
    return idx.replace(offset, bytes.size(), bytes);
  }

  TestFolder folder_;
};

TEST_F(IndexedDatasetTest, ReadsTheFormatsTableByAnyName) {
  folder_.Write("data.idx", kIdx);
  folder_.Write("data.bin", kBin);
  for (const char* name : {"data", "data.idx", "data.bin"}) {
    const IndexedDataset dataset(folder_.Path(name));
    ASSERT_EQ(dataset.num_sequences(), 3) << name;
    EXPECT_EQ(dataset.num_documents(), 3);
    EXPECT_EQ(dataset.token_type(), TokenType::kUInt16);
    EXPECT_THAT(TokensOf(dataset, 0), ElementsAre(10, 11, 12));
    EXPECT_THAT(TokensOf(dataset, 1), ElementsAre(13));
    EXPECT_THAT(TokensOf(dataset, 2), ElementsAre(14, 15));
    EXPECT_EQ(dataset.DocumentIndex(0), 0);
    EXPECT_EQ(dataset.DocumentIndex(1), 2);
    EXPECT_EQ(dataset.DocumentIndex(2), 2);
    EXPECT_EQ(dataset.DocumentIndex(3), 3);
  }
}

TEST_F(IndexedDatasetTest, ReadsEveryIntegerType) {
  struct Case {
    int code;
    std::string bin;
    std::vector<int32_t> tokens;
  };
  const std::vector<Case> cases = {
      {1, Bytes<uint8_t>(1, 255), {1, 255}},     {2, Bytes<int8_t>(1, 127), {1, 127}},
      {3, Bytes<int16_t>(1, 32767), {1, 32767}}, {4, Bytes<int32_t>(1, 70000), {1, 70000}},
      {5, Bytes<int64_t>(1, 70000), {1, 70000}}, {8, Bytes<uint16_t>(1, 65535), {1, 65535}}};
  for (const Case& c : cases) {
    folder_.Write("t.bin", c.bin);
    folder_.Write("t.idx", kMagic + Bytes<uint64_t>(1) + Bytes<uint8_t>(c.code) +
                               Bytes<uint64_t>(1, 2) + Bytes<int32_t>(2) + Bytes<int64_t>(0, 0, 1));
    const IndexedDataset dataset(folder_.Path("t"));
    EXPECT_EQ(TokensOf(dataset, 0), c.tokens) << "code " << c.code;
    EXPECT_EQ(FindMaxToken(dataset), c.tokens[1]) << "code " << c.code;
  }
}

TEST_F(IndexedDatasetTest, WritesTheFormatsTableByteForByte) {
  IndexedDatasetWriter writer(folder_.Path("out"), TokenType::kUInt16);
  writer.AddTokens(std::vector<int32_t>{10, 11});
  writer.AddTokens(std::vector<int32_t>{12});
  writer.EndSequence();
  writer.AddTokens(std::vector<int32_t>{13});
  writer.EndSequence();
  writer.EndDocument();
  writer.EndDocument();
  writer.AddTokens(std::vector<int32_t>{14, 15});
  writer.EndSequence();
  writer.EndDocument();
  EXPECT_EQ(writer.num_tokens(), 6);
  writer.Finish();
  EXPECT_EQ(ReadFile(folder_.Path("out.bin")), kBin);
  EXPECT_EQ(ReadFile(folder_.Path("out.idx")), kIdx);
  EXPECT_EQ(folder_.NumFiles(), 2u) << "temporary files are left";
}

TEST_F(IndexedDatasetTest, EmptyDataIsAHeaderAndOneDocumentIndex) {
  IndexedDatasetWriter(folder_.Path("none"), TokenType::kInt32).Finish();
  EXPECT_EQ(ReadFile(folder_.Path("none.idx")), kMagic + Bytes<uint64_t>(1) + Bytes<uint8_t>(4) +
                                                    Bytes<uint64_t>(0, 1) + Bytes<int64_t>(0));
  const IndexedDataset dataset(folder_.Path("none"));
  EXPECT_EQ(dataset.num_sequences(), 0);
  EXPECT_EQ(dataset.num_documents(), 0);
  EXPECT_EQ(FindMaxToken(dataset), -1);
}

TEST_F(IndexedDatasetTest, AnUnfinishedWriterLeavesTheOldPair) {
  folder_.Write("data.idx", kIdx);
  folder_.Write("data.bin", kBin);
  {
    IndexedDatasetWriter writer(folder_.Path("data"), TokenType::kUInt16);
    writer.AddTokens(std::vector<int32_t>{1, 2, 3});
  }
  EXPECT_EQ(ReadFile(folder_.Path("data.idx")), kIdx);
  EXPECT_EQ(ReadFile(folder_.Path("data.bin")), kBin);
  EXPECT_EQ(folder_.NumFiles(), 2u) << "temporary files are left";
}

TEST_F(IndexedDatasetTest, AWriterRefusesTokensThatDoNotFitItsType) {
  IndexedDatasetWriter writer(folder_.Path("data"), TokenType::kUInt16);
  EXPECT_THROW(writer.AddTokens(std::vector<int32_t>{65536}), base::CheckFailure);
  EXPECT_THROW(writer.AddTokens(std::vector<int32_t>{-1}), base::CheckFailure);
  writer.AddTokens(std::vector<int32_t>{65535});
}

TEST_F(IndexedDatasetTest, AMissingFolderIsTheUsersMistake) {
  EXPECT_THAT(
      ConfigErrorOf([&] { IndexedDatasetWriter(folder_.Path("no/data"), TokenType::kUInt16); }),
      HasSubstr("found no folder"));
}

TEST(IndexedDatasetTypeTest, SixteenBitsAreChosenBelowMegatronsLimit) {
  EXPECT_EQ(OptimalTokenType(50257), TokenType::kUInt16);
  EXPECT_EQ(OptimalTokenType(65499), TokenType::kUInt16);
  EXPECT_EQ(OptimalTokenType(65500), TokenType::kInt32);
}

TEST_F(IndexedDatasetTest, ABrokenHeaderIsNamedByItsByte) {
  EXPECT_THAT(ErrorOf(""), AllOf(HasSubstr("data.idx: byte 0"), HasSubstr("end of the file")));
  EXPECT_THAT(ErrorOf(Patched(0, "N")), HasSubstr("data.idx: byte 0: found another magic"));
  EXPECT_THAT(ErrorOf(Patched(9, Bytes<uint64_t>(2))), HasSubstr("byte 9: found version 2"));
  EXPECT_THAT(ErrorOf(Patched(17, Bytes<uint8_t>(7))),
              HasSubstr("byte 17: found token type code 7"));
  EXPECT_THAT(ErrorOf(Patched(18, Bytes<uint64_t>(~0ull))), HasSubstr("byte 18: found 18446744"));
  EXPECT_THAT(ErrorOf(Patched(18, Bytes<uint64_t>(2))), HasSubstr("byte 18: found 2 sequences"));
  EXPECT_THAT(ErrorOf(Patched(26, Bytes<uint64_t>(0))), HasSubstr("byte 26: found 0 document"));
  EXPECT_THAT(ErrorOf(Patched(26, Bytes<uint64_t>(1ull << 61))), HasSubstr("byte 26: found 23058"));
  EXPECT_THAT(ErrorOf(kIdx + "x"), HasSubstr("byte 18: found 3 sequences"));
}

TEST_F(IndexedDatasetTest, BrokenSequencesAreNamedByTheirByte) {
  // Lengths stand at 34, 38, 42; pointers at 46, 54, 62.
  EXPECT_THAT(ErrorOf(Patched(38, Bytes<int32_t>(-1))),
              HasSubstr("byte 38: found a sequence of -1 tokens"));
  EXPECT_THAT(ErrorOf(Patched(42, Bytes<int32_t>(3))),
              AllOf(HasSubstr("byte 62: found sequence 2 at byte 8 with 3 tokens"),
                    HasSubstr("within the 12 bytes")));
  EXPECT_THAT(ErrorOf(Patched(42, Bytes<int32_t>(0x7FFFFFFF))), HasSubstr("byte 62"));
  EXPECT_THAT(ErrorOf(Patched(54, Bytes<int64_t>(4))),
              HasSubstr("byte 54: found sequence 1 at byte 4, expected byte 6 or later"));
  EXPECT_THAT(ErrorOf(Patched(46, Bytes<int64_t>(-2))), HasSubstr("byte 46: found sequence 0"));
  EXPECT_THAT(ErrorOf(Patched(62, Bytes<int64_t>(0x7FFFFFFFFFFFFFFF))), HasSubstr("byte 62"));
  EXPECT_THAT(ErrorOf(kIdx, kBin + "xx"), HasSubstr("data.bin: found 14 bytes, expected 12 bytes"));
  EXPECT_THAT(ErrorOf(kIdx, kBin.substr(0, 11)), HasSubstr("within the 11 bytes"));
}

TEST_F(IndexedDatasetTest, BrokenDocumentsAreNamedByTheirByte) {
  // Document indices stand at 70, 78, 86, 94.
  EXPECT_THAT(ErrorOf(Patched(70, Bytes<int64_t>(1))),
              HasSubstr("byte 70: found document index 1"));
  EXPECT_THAT(ErrorOf(Patched(86, Bytes<int64_t>(1))),
              HasSubstr("byte 86: found document index 1"));
  EXPECT_THAT(ErrorOf(Patched(86, Bytes<int64_t>(4))),
              HasSubstr("byte 86: found document index 4"));
  EXPECT_THAT(ErrorOf(Patched(94, Bytes<int64_t>(2))), HasSubstr("byte 94: found last document"));
  EXPECT_THAT(ErrorOf(Patched(94, Bytes<int64_t>(-1))), HasSubstr("byte 94"));
}

TEST_F(IndexedDatasetTest, AMissingFileOfThePairIsNamed) {
  folder_.Write("data.idx", kIdx);
  const auto open = [&] { IndexedDataset(folder_.Path("data")); };
  EXPECT_THAT(ConfigErrorOf(open), HasSubstr("data.bin: found No such file"));
  EXPECT_THAT(ConfigErrorOf([&] { IndexedDataset(folder_.Path("other")); }),
              HasSubstr("other.idx: found No such file"));
}

TEST_F(IndexedDatasetTest, AGapBetweenSequencesIsRead) {
  folder_.Write("gap.bin", Bytes<uint16_t>(5, 99, 99, 6));
  folder_.Write("gap.idx", kMagic + Bytes<uint64_t>(1) + Bytes<uint8_t>(8) + Bytes<uint64_t>(2, 3) +
                               Bytes<int32_t>(1, 1) + Bytes<int64_t>(0, 6) +
                               Bytes<int64_t>(0, 1, 2));
  const IndexedDataset dataset(folder_.Path("gap"));
  EXPECT_THAT(TokensOf(dataset, 1), ElementsAre(6));
  EXPECT_EQ(FindMaxToken(dataset), 6) << "bytes between sequences are no tokens";
}

TEST_F(IndexedDatasetTest, MultimodalModesAreAllowedBehindTheDocuments) {
  EXPECT_EQ(ErrorOf(kIdx + std::string(3, '\0')), "no error");
  EXPECT_EQ(IndexedDataset(folder_.Path("data")).Header().back().second, 1);
}

// Opens the pair and reads all of it: must end well or in a ConfigError.
void OpenAndReadAll(const std::string& prefix) {
  ConfigErrorOf([&] {
    const IndexedDataset dataset(prefix);
    for (int64_t i = 0; i < dataset.num_sequences(); ++i) TokensOf(dataset, i);
    for (int64_t i = 0; i <= dataset.num_documents(); ++i) dataset.DocumentIndex(i);
    FindMaxToken(dataset);
  });
}

TEST_F(IndexedDatasetTest, EveryTruncationIsAConfigError) {
  for (size_t size = 0; size < kIdx.size(); ++size) {
    EXPECT_THAT(ErrorOf(kIdx.substr(0, size)), HasSubstr("data.idx: byte ")) << size;
  }
  for (size_t size = 0; size < kBin.size(); ++size) {
    EXPECT_THAT(ErrorOf(kIdx, kBin.substr(0, size)), HasSubstr("data.")) << size;
  }
  EXPECT_EQ(ErrorOf(kIdx), "no error");
}

TEST_F(IndexedDatasetTest, RandomBytesNeverCrashTheReader) {
  std::mt19937 random(7);
  folder_.Write("data.bin", kBin);
  for (int round = 0; round < 4000; ++round) {
    std::string idx = kIdx;
    const int num_changes = 1 + static_cast<int>(random() % 4);
    for (int change = 0; change < num_changes; ++change) {
      // Small and extreme values reach further than plain noise does.
      const char values[] = {0, 1, 2, 127, -1, -128, static_cast<char>(random())};
      idx[random() % idx.size()] = values[random() % sizeof(values)];
    }
    folder_.Write("data.idx", idx);
    OpenAndReadAll(folder_.Path("data"));
  }
}

}  // namespace
}  // namespace tessera::engine
