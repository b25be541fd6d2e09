#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/data/byte_tokenizer.h"

namespace tessera::engine {
namespace {

using testing::ElementsAre;

TEST(ByteTokenizerTest, TokensAreBytesAndAreAppended) {
  const ByteTokenizer tokenizer(false);
  std::vector<int32_t> tokens = {7};
  tokenizer.Encode("a\n\xFF", tokens);
  EXPECT_THAT(tokens, ElementsAre(7, 97, 10, 255));
}

TEST(ByteTokenizerTest, AnEndOfDocumentAddsOneId) {
  EXPECT_EQ(ByteTokenizer(false).vocab_size(), 256);
  EXPECT_EQ(ByteTokenizer(true).vocab_size(), 257);
}

std::string Printable(const std::string& text) {
  std::vector<int32_t> tokens;
  ByteTokenizer(false).Encode(text, tokens);
  return PrintableBytes(tokens);
}

TEST(ByteTokenizerTest, PrintableTextKeepsUtf8AndEscapesTheRest) {
  EXPECT_EQ(Printable("a b\tc\n"), "a b\\tc\\n");
  EXPECT_EQ(Printable("caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x99\x82"),
            "caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x99\x82");
  EXPECT_EQ(Printable("back\\slash"), "back\\\\slash");
  EXPECT_EQ(Printable("\x1B[0m\x7F"), "\\x1b[0m\\x7f");
  EXPECT_EQ(Printable("\xC2\x9B"), "\\xc2\\x9b") << "a C1 control";
}

TEST(ByteTokenizerTest, PrintableTextEscapesBrokenUtf8) {
  EXPECT_EQ(Printable("\xC3"), "\\xc3") << "cut short";
  EXPECT_EQ(Printable("\xC3("), "\\xc3(");
  EXPECT_EQ(Printable("\xC0\xAF"), "\\xc0\\xaf") << "overlong";
  EXPECT_EQ(Printable("\xE0\x80\xAF"), "\\xe0\\x80\\xaf") << "overlong";
  EXPECT_EQ(Printable("\xED\xA0\x80"), "\\xed\\xa0\\x80") << "a surrogate";
  EXPECT_EQ(Printable("\xF4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "past U+10FFFF";
}

TEST(ByteTokenizerTest, PrintableTextMarksEndsAndIsEmptyForOtherVocabularies) {
  EXPECT_EQ(PrintableBytes(std::vector<int32_t>{104, 105, 256, 33}), "hi<|end|>!");
  EXPECT_EQ(PrintableBytes(std::vector<int32_t>{104, 257}), "");
  EXPECT_EQ(PrintableBytes(std::vector<int32_t>{-1}), "");
  EXPECT_EQ(PrintableBytes({}), "");
}

}  // namespace
}  // namespace tessera::engine
