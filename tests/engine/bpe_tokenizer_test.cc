#include "engine/data/bpe_tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "tests/engine/data_test_files.h"
#include "tests/engine/tokenizer_test_data.h"

namespace tessera::engine {
namespace {

using test::ConfigErrorOf;
using test::Encode;
using test::GoldenTokenizer;
using test::kTokenizerFolder;
using test::kTokenizerJson;
using test::Pieces;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Json = nlohmann::json;

Json GoldenCases() { return Json::parse(test::ReadFile(kTokenizerFolder + "/cases.json")); }

// A vocabulary of the 256 bytes, as their own ids, and what these merges make, from 256 on.
BpeDescription Merging(const std::vector<BpeMerge>& merges) {
  BpeDescription description{.path = "made up"};
  for (int32_t byte = 0; byte < 256; ++byte) {
    description.vocabulary.push_back(
        {.bytes = std::string(1, static_cast<char>(byte)), .id = byte});
  }
  for (const BpeMerge& merge : merges) {
    const std::string made = merge.left + merge.right;
    const auto& known = description.vocabulary;
    if (std::none_of(known.begin(), known.end(),
                     [&](const BpeToken& token) { return token.bytes == made; })) {
      description.vocabulary.push_back({.bytes = made, .id = static_cast<int32_t>(known.size())});
    }
    description.merges.push_back(merge);
  }
  return description;
}

// The ids come from the plain encoder of tests/golden/make_tokenizer.py.
TEST(BpeTokenizerTest, TokensAreThoseOfGpt2sAlgorithm) {
  const auto folder = GoldenTokenizer();
  const auto file = OpenTokenizer({.name = kTokenizerJson});
  for (const auto& tokenizer : {folder.get(), file.get()}) {
    EXPECT_EQ(tokenizer->vocab_size(), 677);  // 256 bytes, 420 merges, an end of document
    EXPECT_EQ(tokenizer->end_of_document(), 676);
    for (const Json& c : GoldenCases()) {
      const auto text = c["text"].get<std::string>();
      const auto ids = c["ids"].get<std::vector<int32_t>>();
      EXPECT_EQ(Encode(*tokenizer, text), ids) << c["text"];
      EXPECT_EQ(tokenizer->Decode(ids), text) << c["text"];
    }
  }
}

TEST(BpeTokenizerTest, AnEncoderRemembersNothingThatChangesTokens) {
  const auto tokenizer = GoldenTokenizer();
  const auto encoder = tokenizer->NewEncoder();
  for (int round = 0; round < 2; ++round) {
    for (const Json& c : GoldenCases()) {
      std::vector<int32_t> tokens = {-7};
      encoder->Encode(c["text"].get<std::string>(), tokens);
      EXPECT_EQ(tokens.front(), -7);
      tokens.erase(tokens.begin());
      EXPECT_EQ(tokens, c["ids"].get<std::vector<int32_t>>()) << c["text"];
    }
  }
}

TEST(BpeTokenizerTest, AnyBytesComeBackFromTheirTokens) {
  const auto tokenizer = GoldenTokenizer();
  std::mt19937 random(3);
  for (int round = 0; round < 500; ++round) {
    std::string bytes;
    for (uint32_t size = random() % 40; size > 0; --size) {
      // Letters between, so that whole and broken characters alternate.
      bytes += random() % 2 == 0 ? 'a' : static_cast<char>(random());
    }
    EXPECT_EQ(tokenizer->Decode(Encode(*tokenizer, bytes)), bytes);
  }
}

TEST(BpeTokenizerTest, BrokenCharactersArePiecesOfTheirOwn) {
  BpeDescription description = Merging({{"a", "\xC3"}, {"\xC3", "b"}, {"\xC3", "\xFF"}});
  description.pattern = kGpt2Pattern;
  const BpeTokenizer tokenizer(description, {});
  EXPECT_THAT(Pieces(tokenizer, "a\xC3\x62"), ElementsAre("a", "\xC3", "b"));
  EXPECT_THAT(Pieces(tokenizer, "a\xC3\xFFz"), ElementsAre("a", "\xC3\xFF", "z"));
  EXPECT_THAT(Pieces(tokenizer, "a\xC3\xA9"), ElementsAre("a\xC3", "\xA9")) << "a whole one";
}

TEST(BpeTokenizerTest, WhatThePatternLeavesIsAPieceToo) {
  BpeDescription description = Merging({{"a", "b"}, {"b", "c"}, {"1", "2"}, {"2", "a"}});
  description.pattern = "[0-9]+";
  const BpeTokenizer tokenizer(description, {});
  EXPECT_THAT(Pieces(tokenizer, "ab12ab"), ElementsAre("ab", "12", "ab"));
  EXPECT_THAT(Pieces(tokenizer, "2abc1"), ElementsAre("2", "ab", "c", "1"));
  description.pattern.clear();
  EXPECT_THAT(Pieces(BpeTokenizer(description, {}), "12ab"), ElementsAre("12", "ab"));
}

TEST(BpeTokenizerTest, APieceThatIsATokenIsKeptWhereTheModelSaysSo) {
  BpeDescription description = Merging({{"b", "c"}, {"a", "b"}});
  description.vocabulary.push_back({.bytes = "abc", .id = 300});
  description.specials.push_back({.bytes = "cab", .id = 301});
  const BpeTokenizer merges(description, {});
  EXPECT_THAT(Pieces(merges, "abc"), ElementsAre("a", "bc"));
  description.keeps_known_pieces = true;
  const BpeTokenizer keeps(description, {});
  EXPECT_THAT(Encode(keeps, "abc"), ElementsAre(300));
  EXPECT_THAT(Pieces(keeps, "abca"), ElementsAre("a", "bc", "a"));
  EXPECT_THAT(Pieces(keeps, "cab"), ElementsAre("c", "ab")) << "text is no special token";
}

TEST(BpeTokenizerTest, SpecialTokensAreTextUnlessTheyAreAskedFor) {
  const std::string text = "sum<|endoftext|><|endoftext|> the<|endof";
  const auto plain = GoldenTokenizer();
  for (const int32_t token : Encode(*plain, text)) EXPECT_NE(token, 676);
  const auto finding = GoldenTokenizer(/*finds_specials=*/true);
  std::vector<int32_t> expected = Encode(*plain, "sum");
  expected.insert(expected.end(), 2, 676);
  for (const int32_t token : Encode(*plain, " the<|endof")) expected.push_back(token);
  EXPECT_EQ(Encode(*finding, text), expected);
  EXPECT_EQ(finding->Decode(expected), text);
}

TEST(BpeTokenizerTest, OfSpecialTokensTheLongestIsFound) {
  BpeDescription description = Merging({});
  description.specials = {{"<a>", 300}, {"<a>b", 301}, {"a.c", 302}};
  const BpeTokenizer tokenizer(description, {.finds_specials = true});
  EXPECT_THAT(Encode(tokenizer, "<a>b<a>c"), ElementsAre(301, 300, 'c'));
  EXPECT_THAT(Encode(tokenizer, "abc"), ElementsAre('a', 'b', 'c')) << "a dot is a dot";
  EXPECT_EQ(tokenizer.end_of_document(), std::nullopt);
}

TEST(BpeTokenizerTest, TheEndOfADocumentIsTheUsualTokenOrTheOneNamed) {
  BpeDescription description = Merging({});
  description.specials = {{"<|pad|>", 300}, {"</s>", 301}, {"<|end_of_text|>", 302}};
  EXPECT_EQ(BpeTokenizer(description, {}).end_of_document(), 302);
  EXPECT_EQ(BpeTokenizer(description, {.end_of_document = "<|pad|>"}).end_of_document(), 300);
  EXPECT_THAT(ConfigErrorOf([&] { BpeTokenizer(description, {.end_of_document = "<|x|>"}); }),
              HasSubstr("made up: found no token \"<|x|>\""));
}

TEST(BpeTokenizerTest, IdsOutsideTheVocabularyHaveNoText) {
  const auto tokenizer = GoldenTokenizer();
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{65, 677}), std::nullopt);
  EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{-1}), std::nullopt);
  EXPECT_EQ(tokenizer->Decode({}), "");
}

// Words, spaces, line ends and punctuation in any order.
std::string RandomText(std::mt19937& random) {
  const char* const words[] = {
      "a",  "the", "s",   "'s", "'", " ",        "  ", "\n",           "\r\n",
      "\t", "!",   "...", "12", "9", "\xC3\xA9", "Z",  "\xE5\xAD\xA6", "<|endoftext|>"};
  std::string text;
  for (int i = 0; i < 60; ++i) text += words[random() % std::size(words)];
  return text;
}

void ExpectCutsToChangeNothing(const Tokenizer& tokenizer) {
  const auto encoder = tokenizer.NewEncoder();
  std::mt19937 random(11);
  int num_cuts = 0;
  for (int round = 0; round < 200; ++round) {
    const std::string text = RandomText(random);
    std::vector<int32_t> whole;
    encoder->Encode(text, whole);
    for (size_t cut = tokenizer.FindCut(text, 0); cut != std::string::npos;
         cut = tokenizer.FindCut(text, cut + 1)) {
      ASSERT_LT(cut, text.size());
      ASSERT_EQ(tokenizer.FindCut(text, cut), cut);
      std::vector<int32_t> parts;
      encoder->Encode(text.substr(0, cut), parts);
      encoder->Encode(text.substr(cut), parts);
      ASSERT_EQ(parts, whole) << Json(text) << " cut at " << cut;
      ++num_cuts;
    }
  }
  EXPECT_GT(num_cuts, 300);
}

const std::string kLlamaPattern =
    R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*)"
    R"(|\s*[\r\n]+|\s+(?!\S)|\s+)";

// The split of Llama 3, in front of the golden vocabulary.
std::string LlamaTokenizerJson() {
  Json json = Json::parse(test::ReadFile(kTokenizerJson));
  const Json split = {{"type", "Split"},
                      {"pattern", {{"Regex", kLlamaPattern}}},
                      {"behavior", "Isolated"},
                      {"invert", false}};
  Json level = json["pre_tokenizer"];
  level["use_regex"] = false;
  json["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {split, level}}};
  return json.dump();
}

TEST(BpeTokenizerTest, ACutWhereItIsAllowedChangesNoToken) {
  ExpectCutsToChangeNothing(*GoldenTokenizer());
  ExpectCutsToChangeNothing(*GoldenTokenizer(/*finds_specials=*/true));
  const test::TestFolder folder;
  const std::string path = folder.Write("tokenizer.json", LlamaTokenizerJson());
  ExpectCutsToChangeNothing(*OpenTokenizer({.name = path}));
}

TEST(BpeTokenizerTest, TextOfAnUnknownPatternIsNotCut) {
  BpeDescription description = Merging({});
  description.pattern = "[a-z ]+";
  EXPECT_EQ(BpeTokenizer(description, {}).FindCut("a b c d", 0), std::string::npos);
  description.pattern = kGpt2Pattern;
  description.specials = {{"<an end>", 300}};
  EXPECT_EQ(BpeTokenizer(description, {}).FindCut("a b", 0), 1u);
  EXPECT_EQ(BpeTokenizer(description, {.finds_specials = true}).FindCut("a b", 0),
            std::string::npos)
      << "a special token has a word's end inside";
}

TEST(BpeTokenizerTest, PiecesAreThoseOfTheModelsOwnExpression) {
  BpeDescription description =
      Merging({{"1", "2"}, {"3", "4"}, {"4", "5"}, {"!", "\n"}, {"'", "S"}, {"\t", "a"}});
  const std::string text = "12345!\na'S\ta";
  description.pattern = kGpt2Pattern;
  EXPECT_THAT(Pieces(BpeTokenizer(description, {}), text),
              ElementsAre("12", "34", "5", "!", "\n", "a", "'", "S", "\t", "a"));
  // Numbers by three digits, line ends with what stands before them, contractions in any case, one
  // character of any kind before a word.
  description.pattern = kLlamaPattern;
  EXPECT_THAT(Pieces(BpeTokenizer(description, {}), text),
              ElementsAre("12", "3", "45", "!\n", "a", "'S", "\ta"));
}

}  // namespace
}  // namespace tessera::engine
