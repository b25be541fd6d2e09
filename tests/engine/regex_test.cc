#include "engine/data/regex.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/engine/data_test_files.h"

namespace tessera::engine {
namespace {

using test::ConfigErrorOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> MatchesOf(const std::string& pattern, const std::string& text,
                                   Regex::Subject subject = Regex::Subject::kUtf8) {
  const Regex regex(pattern, subject, "here");
  Regex::Search search(regex);
  std::vector<std::string> matches;
  size_t begin = 0;
  while (const auto match = search.Find(text, begin)) {
    matches.push_back(text.substr(match->begin, match->end - match->begin));
    begin = match->end;
  }
  return matches;
}

TEST(RegexTest, ClassesAreThoseOfUnicode) {
  EXPECT_THAT(MatchesOf(R"(\p{L}+)", "a\u00E9 \u5B66\u0301 \u04D6"),
              ElementsAre("a\u00E9", "\u5B66", "\u04D6"));
  EXPECT_THAT(MatchesOf(R"(\p{N}+)", "12\u00BD\u0664 x\u2167"),
              ElementsAre("12\u00BD\u0664", "\u2167"));
  EXPECT_THAT(MatchesOf("(?i:\u00E9)", "\u00C9"), ElementsAre("\u00C9"));
}

// Python: [c for c in map(chr, range(0x110000)) if regex.match(r"\s", c)], of the regex package.
TEST(RegexTest, SpaceIsUnicodesPropertyWhiteSpace) {
  const std::string spaces =
      "\t\n\v\f\r \u0085\u00A0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009"
      "\u200A\u2028\u2029\u202F\u205F\u3000";
  EXPECT_THAT(MatchesOf(R"(\s+)", spaces), ElementsAre(spaces));
  EXPECT_THAT(MatchesOf(R"([\s]+)", spaces), ElementsAre(spaces));
  EXPECT_THAT(MatchesOf(R"(\S|[^\s])", spaces), IsEmpty());
  const std::string others = "\x1C\x1D\x1E\x1F\u180E\u200B\u2060\uFEFFx";
  EXPECT_THAT(MatchesOf(R"(\s)", others), IsEmpty());
  EXPECT_THAT(MatchesOf(R"(\S+)", others), ElementsAre(others));
  EXPECT_THAT(MatchesOf(R"(\\s)", " s\\s"), ElementsAre("\\s")) << "a backslash and an s";
}

TEST(RegexTest, EmptyMatchesArePassedOver) {
  EXPECT_THAT(MatchesOf("[0-9]*", "a12b3"), ElementsAre("12", "3"));
}

TEST(RegexTest, BytesAreMatchedAsTheyAre) {
  EXPECT_THAT(MatchesOf("<b>", std::string("\xFF<b>\0<b>", 8), Regex::Subject::kBytes),
              ElementsAre("<b>", "<b>"));
}

TEST(RegexTest, ABrokenExpressionIsShown) {
  EXPECT_THAT(ConfigErrorOf([] { Regex("a(b", Regex::Subject::kUtf8, "file.json"); }),
              HasSubstr("file.json: found the expression \"a(b\" (missing closing parenthesis"));
}

TEST(RegexTest, AnExpressionThatNeverEndsIsGivenUp) {
  EXPECT_THAT(ConfigErrorOf([] { MatchesOf("(a+)+$", std::string(60, 'a') + "b"); }),
              HasSubstr("here: found an expression too hard to match"));
}

}  // namespace
}  // namespace tessera::engine
