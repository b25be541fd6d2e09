#include "engine/data/byte_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/data/utf8.h"

namespace tessera::engine {
namespace {

using ::testing::ElementsAre;

TEST(ByteTokenizerTest, TokensAreBytesAndAreAppended) {
  std::vector<int32_t> tokens = {7};
  ByteTokenizer(false).NewEncoder()->Encode("a\n\xFF", tokens);
  EXPECT_THAT(tokens, ElementsAre(7, 97, 10, 255));
}

TEST(ByteTokenizerTest, AnEndOfDocumentAddsOneId) {
  EXPECT_EQ(ByteTokenizer(false).vocab_size(), 256);
  EXPECT_EQ(ByteTokenizer(false).end_of_document(), std::nullopt);
  EXPECT_EQ(ByteTokenizer(true).vocab_size(), 257);
  EXPECT_EQ(ByteTokenizer(true).end_of_document(), 256);
}

TEST(Utf8Test, APrefixEndsBeforeTheFirstBrokenCharacter) {
  EXPECT_EQ(Utf8PrefixLength(""), 0u);
  EXPECT_EQ(Utf8PrefixLength("ascii of more than eight bytes"), 30u);
  EXPECT_EQ(Utf8PrefixLength("caf\xC3\xA9"), 5u);
  EXPECT_EQ(Utf8PrefixLength("caf\xC3"), 3u);
  EXPECT_EQ(Utf8PrefixLength("\xFFtext"), 0u);
  for (size_t place = 0; place < 40; ++place) {
    std::string text(40, 'a');
    text[place] = '\x80';
    EXPECT_EQ(Utf8PrefixLength(text), place);
  }
}

TEST(Utf8Test, PrintableTextKeepsUtf8AndEscapesTheRest) {
  EXPECT_EQ(PrintableText("a b\tc\n"), "a b\\tc\\n");
  EXPECT_EQ(PrintableText("caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x99\x82"),
            "caf\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x99\x82");
  EXPECT_EQ(PrintableText("back\\slash"), "back\\\\slash");
  EXPECT_EQ(PrintableText("\x1B[0m\x7F"), "\\x1b[0m\\x7f");
  EXPECT_EQ(PrintableText("\xC2\x9B"), "\\xc2\\x9b") << "a C1 control";
}

TEST(Utf8Test, PrintableTextEscapesBrokenUtf8) {
  EXPECT_EQ(PrintableText("\xC3"), "\\xc3") << "cut short";
  EXPECT_EQ(PrintableText("\xC3("), "\\xc3(");
  EXPECT_EQ(PrintableText("\xC0\xAF"), "\\xc0\\xaf") << "overlong";
  EXPECT_EQ(PrintableText("\xE0\x80\xAF"), "\\xe0\\x80\\xaf") << "overlong";
  EXPECT_EQ(PrintableText("\xED\xA0\x80"), "\\xed\\xa0\\x80") << "a surrogate";
  EXPECT_EQ(PrintableText("\xF4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80") << "past U+10FFFF";
}

TEST(ByteTokenizerTest, PrintableTokensMarkEndsAndAreEmptyForOtherVocabularies) {
  const ByteTokenizer tokenizer(true);
  EXPECT_EQ(PrintableTokens(tokenizer, std::vector<int32_t>{104, 105, 256, 33}), "hi<|end|>!");
  EXPECT_EQ(PrintableTokens(tokenizer, std::vector<int32_t>{104, 257}), "");
  EXPECT_EQ(PrintableTokens(tokenizer, std::vector<int32_t>{-1}), "");
  EXPECT_EQ(PrintableTokens(tokenizer, {}), "");
}

}  // namespace
}  // namespace tessera::engine
