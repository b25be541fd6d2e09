#include "engine/data/token_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/data/data_format.h"
#include "tests/engine/data_test_files.h"

namespace tessera::engine {
namespace {

using test::Bytes;
using test::ConfigErrorOf;
using test::TestFolder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<int32_t> AllTokens(const TokenStore& store) {
  const TokenView view = store.Sequence(0);
  std::vector<int32_t> tokens(static_cast<size_t>(view.num_tokens));
  CopyTokens(view, 0, view.num_tokens, tokens.data());
  return tokens;
}

// 256 numbers, of which llm.c sets the first three.
std::string LlmCHeader(int32_t magic, int32_t version, int32_t num_tokens) {
  return Bytes<int32_t>(magic, version, num_tokens) + std::string(253 * 4, '\0');
}

class TokenFileTest : public ::testing::Test {
 protected:
  std::string LlmCErrorOf(const std::string& bytes) const {
    const std::string path = folder_.Write("shard.bin", bytes);
    return ConfigErrorOf([&] { OpenLlmCTokenFile(path); });
  }

  TestFolder folder_;
};

TEST_F(TokenFileTest, ReadsRawTokensOfEachType) {
  const std::string u8 = folder_.Write("a.u8", Bytes<uint8_t>(0, 200, 255));
  EXPECT_THAT(AllTokens(*OpenRawTokenFile(u8, TokenType::kUInt8)), ElementsAre(0, 200, 255));
  const std::string u16 = folder_.Write("a.u16", Bytes<uint16_t>(0, 50256, 65535));
  EXPECT_THAT(AllTokens(*OpenRawTokenFile(u16, TokenType::kUInt16)), ElementsAre(0, 50256, 65535));
  const std::string i32 = folder_.Write("a.i32", Bytes<int32_t>(0, 128255, 2147483647));
  EXPECT_THAT(AllTokens(*OpenRawTokenFile(i32, TokenType::kInt32)),
              ElementsAre(0, 128255, 2147483647));
}

TEST_F(TokenFileTest, RawFilesOfOddSizeOrNoneAreRefused) {
  const std::string odd = folder_.Write("odd.u16", "abc");
  EXPECT_THAT(ConfigErrorOf([&] { OpenRawTokenFile(odd, TokenType::kUInt16); }),
              HasSubstr("odd.u16: found 3 bytes, expected a multiple of 2"));
  const std::string empty = folder_.Write("empty.u8", "");
  EXPECT_THAT(ConfigErrorOf([&] { OpenRawTokenFile(empty, TokenType::kUInt8); }),
              HasSubstr("empty.u8: found an empty file"));
  EXPECT_THAT(ConfigErrorOf([&] { OpenRawTokenFile(folder_.Path("no"), TokenType::kUInt8); }),
              HasSubstr("no: found No such file"));
  EXPECT_THAT(ConfigErrorOf([&] { OpenRawTokenFile(folder_.Path("."), TokenType::kUInt8); }),
              HasSubstr("found a directory"));
}

TEST_F(TokenFileTest, ReadsBothKindsOfLlmCFiles) {
  const std::string gpt2 =
      folder_.Write("gpt2.bin", LlmCHeader(20240520, 1, 3) + Bytes<uint16_t>(50256, 1, 65535));
  EXPECT_THAT(AllTokens(*OpenLlmCTokenFile(gpt2)), ElementsAre(50256, 1, 65535));
  const std::string llama =
      folder_.Write("llama.bin", LlmCHeader(20240801, 7, 2) + Bytes<uint32_t>(128000, 1));
  EXPECT_THAT(AllTokens(*OpenLlmCTokenFile(llama)), ElementsAre(128000, 1));
  EXPECT_THAT(OpenLlmCTokenFile(llama)->Header(),
              ElementsAre(std::pair<std::string, int64_t>("magic", 20240801),
                          std::pair<std::string, int64_t>("version", 7),
                          std::pair<std::string, int64_t>("token_count", 2)));
}

TEST_F(TokenFileTest, LlmCFilesMustBeAsLongAsTheySay) {
  const std::string tokens = Bytes<uint16_t>(1, 2, 3);
  const std::string whole = LlmCHeader(20240520, 1, 3) + tokens;
  EXPECT_EQ(LlmCErrorOf(whole), "no error");
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_THAT(LlmCErrorOf(whole.substr(0, size)), HasSubstr("shard.bin: byte ")) << size;
  }
  EXPECT_THAT(LlmCErrorOf(whole + "x"),
              HasSubstr("byte 8: found 3 tokens in a file of 1031 bytes"));
  EXPECT_THAT(LlmCErrorOf(LlmCHeader(20240520, 1, -3)), HasSubstr("byte 8: found -3 tokens"));
}

TEST_F(TokenFileTest, LlmCFilesOfAnotherKindAreRefused) {
  EXPECT_THAT(LlmCErrorOf(LlmCHeader(20240522, 1, 0)),
              HasSubstr("byte 0: found magic number 20240522"));
  EXPECT_THAT(LlmCErrorOf(LlmCHeader(20240520, 7, 0)),
              AllOf(HasSubstr("byte 4: found version 7"), HasSubstr("expected version 1")));
}

TEST_F(TokenFileTest, TheFormatIsFoundByMagicNumberAndName) {
  folder_.Write("pair.idx", "");
  folder_.Write("pair.bin", "");
  for (const char* name : {"pair", "pair.idx", "pair.bin"}) {
    EXPECT_EQ(DetectDataFormat(folder_.Path(name)), DataFormat::kIndexed) << name;
  }
  const std::string shard = folder_.Write("shard.bin", LlmCHeader(20240520, 1, 0));
  EXPECT_EQ(DetectDataFormat(shard), DataFormat::kLlmC);
  EXPECT_EQ(DetectDataFormat(folder_.Write("a.u8", "abc")), DataFormat::kRawU8);
  EXPECT_EQ(DetectDataFormat(folder_.Write("a.txt", "abc")), DataFormat::kRawU8);
  EXPECT_EQ(DetectDataFormat(folder_.Write("a.u16", "abcd")), DataFormat::kRawU16);
  EXPECT_EQ(DetectDataFormat(folder_.Write("a.i32", "abcd")), DataFormat::kRawI32);
  const std::string plain = folder_.Write("plain.bin", "abcd");
  EXPECT_THAT(ConfigErrorOf([&] { DetectDataFormat(plain); }),
              HasSubstr("raw-u8, raw-u16, raw-i32 or llmc"));
  EXPECT_THAT(ConfigErrorOf([&] { DetectDataFormat(folder_.Path("no.bin")); }),
              HasSubstr("no.bin: found No such file"));
}

TEST_F(TokenFileTest, NamesOfFormatsRoundTrip) {
  for (const DataFormat format : {DataFormat::kAuto, DataFormat::kIndexed, DataFormat::kRawU8,
                                  DataFormat::kRawU16, DataFormat::kRawI32, DataFormat::kLlmC}) {
    EXPECT_EQ(DataFormatFromString(ToString(format)), format);
  }
  EXPECT_EQ(DataOrderFromString("sequential"), DataOrder::kSequential);
  EXPECT_EQ(DataOrderFromString("shuffled"), DataOrder::kShuffled);
  EXPECT_THAT(ConfigErrorOf([] { DataFormatFromString("idxx"); }), HasSubstr("found idxx"));
  EXPECT_THAT(ConfigErrorOf([] { DataOrderFromString("random"); }), HasSubstr("found random"));
}

TEST_F(TokenFileTest, TheHighestTokenIsFoundAnywhereInALargeFile) {
  // More than two of the pieces that threads take: 40M tokens.
  std::string bytes(40'000'000, '\1');
  bytes[39'999'999] = '\7';
  const std::string last = folder_.Write("last.u8", bytes);
  EXPECT_EQ(FindMaxToken(*OpenRawTokenFile(last, TokenType::kUInt8)), 7);
  bytes[20'000'000] = '\xF0';
  const std::string middle = folder_.Write("middle.u8", bytes);
  EXPECT_EQ(FindMaxToken(*OpenRawTokenFile(middle, TokenType::kUInt8)), 0xF0);
}

TEST_F(TokenFileTest, ATokenThatIsNoIdIsNamedByItsByte) {
  const std::string negative = folder_.Write("n.i32", Bytes<int32_t>(1, 2, -5, -6));
  EXPECT_THAT(ConfigErrorOf([&] { FindMaxToken(*OpenRawTokenFile(negative, TokenType::kInt32)); }),
              HasSubstr("n.i32: byte 8: found token -5"));
  const std::string large =
      folder_.Write("l.bin", LlmCHeader(20240801, 7, 2) + Bytes<uint32_t>(1, 0x80000000u));
  EXPECT_THAT(ConfigErrorOf([&] { FindMaxToken(*OpenLlmCTokenFile(large)); }),
              HasSubstr("l.bin: byte 1028: found token 2147483648"));
}

}  // namespace
}  // namespace tessera::engine
