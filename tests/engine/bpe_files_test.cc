// Files of byte-level BPE tokenizers that are not as they should be.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "engine/data/bpe_description.h"
#include "engine/data/byte_alphabet.h"
#include "tests/engine/data_test_files.h"
#include "tests/engine/tokenizer_test_data.h"

namespace tessera::engine {
namespace {

using test::ConfigErrorOf;
using test::kTokenizerFolder;
using test::kTokenizerJson;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::json;

TEST(ByteAlphabetTest, PrintableBytesStandForThemselvesAndTheOthersFollow) {
  EXPECT_EQ(BytesOfToken("Az~!"), "Az~!");
  EXPECT_EQ(BytesOfToken("\u0120t"), " t");  // byte 32 is the 33rd that is not printable
  EXPECT_EQ(BytesOfToken("\u010A"), "\n");   // byte 10 the 11th
  EXPECT_EQ(BytesOfToken("\u0100"), std::string(1, '\0'));
  EXPECT_EQ(BytesOfToken("\u0143"), "\xAD");  // the last
  EXPECT_EQ(BytesOfToken("\u00C3\u00A9"), "\u00E9");
  EXPECT_EQ(BytesOfToken(""), "");
}

TEST(ByteAlphabetTest, OtherCharactersStandForNoByte) {
  for (const char* const token : {" ", "a b", "\u0144", "\u00AD", "\n", "\u5B66", "\xFF"}) {
    EXPECT_EQ(BytesOfToken(token), std::nullopt) << token;
  }
}

class BpeFilesTest : public ::testing::Test {
 protected:
  BpeFilesTest() {
    std::filesystem::create_directory(folder_.Path("gpt2"));
    for (const char* const name : {"vocab.json", "merges.txt"}) {
      folder_.Write(std::string("gpt2/") + name, test::ReadFile(kTokenizerFolder + "/" + name));
    }
  }
  std::string ErrorOfFolder() const {
    return ConfigErrorOf([&] { OpenTokenizer({.name = "gpt2:" + folder_.Path("gpt2")}); });
  }
  std::string ErrorOfVocabulary(const std::function<void(Json&)>& change) const {
    Json json = Json::parse(test::ReadFile(kTokenizerFolder + "/vocab.json"));
    change(json);
    folder_.Write("gpt2/vocab.json", json.dump());
    return ErrorOfFolder();
  }
  std::string ErrorOfMerges(const std::string& more) const {
    folder_.Write("gpt2/merges.txt", test::ReadFile(kTokenizerFolder + "/merges.txt") + more);
    return ErrorOfFolder();
  }
  // Of tokenizer.json with a change.
  std::string ErrorOfJson(const std::function<void(Json&)>& change) const {
    Json json = Json::parse(test::ReadFile(kTokenizerJson));
    change(json);
    const std::string path = folder_.Write("tokenizer.json", json.dump());
    return ConfigErrorOf([&] { OpenTokenizer({.name = path}); });
  }

  test::TestFolder folder_;
};

TEST_F(BpeFilesTest, SpecialIsWhatNoMergeMakes) {
  const BpeDescription description = ReadGpt2Folder(kTokenizerFolder);
  ASSERT_EQ(description.specials.size(), 1u);
  EXPECT_EQ(description.specials.front().bytes, "<|endoftext|>");
  EXPECT_EQ(description.merges.size(), 420u);
}

TEST_F(BpeFilesTest, AVocabularyThatIsNoneIsNamed) {
  EXPECT_EQ(ErrorOfFolder(), "no error");
  EXPECT_THAT(ErrorOfVocabulary([](Json& json) {
                json = {1, 2};
              }),
              HasSubstr("vocab.json: found an array, expected an object of tokens"));
  EXPECT_THAT(ErrorOfVocabulary([](Json& json) { json["a"] = "7"; }),
              HasSubstr("vocab.json: /a: found \"7\", expected a token's id"));
  EXPECT_THAT(ErrorOfVocabulary([](Json& json) { json["a"] = -1; }), HasSubstr("/a: found -1"));
  EXPECT_THAT(ErrorOfVocabulary([](Json& json) { json["a"] = 3000000000u; }),
              HasSubstr("/a: found 3000000000"));
  EXPECT_THAT(ErrorOfVocabulary([](Json& json) { json["a"] = 1 << 24; }),
              HasSubstr("found token \"a\" with id 16777216"));
  EXPECT_THAT(ErrorOfVocabulary([](Json& json) { json["a"] = json["b"]; }),
              HasSubstr("expected one id a token, and one token an id"));
  EXPECT_THAT(ErrorOfVocabulary([](Json& json) { json.erase("a"); }),
              HasSubstr("gpt2: found no token for byte 97"));
  folder_.Write("gpt2/vocab.json", "{\"a\": 1, \"a\": 2}");
  EXPECT_THAT(ErrorOfFolder(), HasSubstr("vocab.json: /a"));
  folder_.Write("gpt2/vocab.json", "{");
  EXPECT_THAT(ErrorOfFolder(), HasSubstr("vocab.json"));
}

TEST_F(BpeFilesTest, AMergeThatIsNoneIsNamedByItsLine) {
  EXPECT_THAT(ErrorOfMerges("a\n"),
              HasSubstr("merges.txt: line 422: found \"a\", expected two tokens with a space"));
  EXPECT_THAT(ErrorOfMerges("\na b c\n"), HasSubstr("line 423: found \"a b c\""));
  EXPECT_THAT(ErrorOfMerges("a \n"), HasSubstr("line 422: found \"a \""));
  EXPECT_THAT(ErrorOfMerges("a \xC2\xAD\n"), HasSubstr("expected two tokens in the byte alphabet"));
  EXPECT_THAT(ErrorOfMerges("z z\n"),
              HasSubstr("found merge 421, of \"z\" and \"z\", expected both and what they make"));
}

TEST_F(BpeFilesTest, MissingFilesAreNamed) {
  std::filesystem::remove(folder_.Path("gpt2/merges.txt"));
  EXPECT_THAT(ErrorOfFolder(), HasSubstr("gpt2/merges.txt: found No such file"));
  EXPECT_THAT(ConfigErrorOf([] { OpenTokenizer({.name = "gpt2:/no/such"}); }),
              HasSubstr("/no/such/vocab.json: found No such file"));
  EXPECT_THAT(ConfigErrorOf([] { OpenTokenizer({.name = "no.json"}); }),
              HasSubstr("no.json: found No such file"));
}

TEST_F(BpeFilesTest, WhatWouldChangeTheTokensIsRefusedByItsKey) {
  EXPECT_EQ(ErrorOfJson([](Json&) {}), "no error");
  const auto set = [&](const std::string& pointer, const Json& value) {
    return ErrorOfJson([&](Json& json) { json[Json::json_pointer(pointer)] = value; });
  };
  EXPECT_THAT(set("/model/type", "Unigram"),
              HasSubstr("tokenizer.json: /model/type: found \"Unigram\", expected BPE"));
  EXPECT_THAT(set("/normalizer", {{"type", "NFC"}}),
              HasSubstr("/normalizer: found an object, expected null"));
  EXPECT_THAT(set("/pre_tokenizer/type", "Whitespace"), HasSubstr("/pre_tokenizer/type: found "));
  EXPECT_THAT(set("/pre_tokenizer/add_prefix_space", true),
              HasSubstr("/pre_tokenizer/add_prefix_space: found true, expected false"));
  EXPECT_THAT(set("/model/byte_fallback", true), HasSubstr("/model/byte_fallback: found true"));
  EXPECT_THAT(set("/model/dropout", 0.1), HasSubstr("/model/dropout: found 0.1, expected null"));
  EXPECT_THAT(set("/model/end_of_word_suffix", "</w>"), HasSubstr("/model/end_of_word_suffix"));
  EXPECT_THAT(set("/added_tokens/0/lstrip", true), HasSubstr("/added_tokens/0/lstrip: found true"));
  EXPECT_THAT(set("/added_tokens/0/id", "x"), HasSubstr("/added_tokens/0/id"));
  EXPECT_THAT(set("/model/merges/3", {"a"}), HasSubstr("/model/merges/3: found an array"));
  EXPECT_THAT(set("/model/merges/3", 3), HasSubstr("/model/merges/3: found 3, expected text"));
  EXPECT_THAT(ErrorOfJson([](Json& json) { json.erase("model"); }),
              HasSubstr("found no key \"model\""));
  EXPECT_THAT(ErrorOfJson([](Json& json) { json["pre_tokenizer"].erase("add_prefix_space"); }),
              HasSubstr("found no key \"add_prefix_space\", expected false"));
}

TEST_F(BpeFilesTest, ASplitIsRefusedWhereItIsNoneOfOurs) {
  const auto split = [&](const Json& first, bool uses_regex) {
    return ErrorOfJson([&](Json& json) {
      Json level = json["pre_tokenizer"];
      level["use_regex"] = uses_regex;
      json["pre_tokenizer"] = {{"type", "Sequence"}, {"pretokenizers", {first, level}}};
    });
  };
  const auto by = [](const std::string& pattern) {
    return Json{{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}};
  };
  EXPECT_EQ(split(by("[a-z]+"), false), "no error");
  EXPECT_THAT(split(by("[a-z"), false), HasSubstr("tokenizer.json: found the expression \"[a-z\""));
  EXPECT_THAT(split(by("[a-z]+"), true),
              HasSubstr("/pre_tokenizer/pretokenizers/1: found an object, expected \"use_regex\""));
  Json other = by("x");
  other["behavior"] = "Removed";
  EXPECT_THAT(split(other, false), HasSubstr("/pretokenizers/0/behavior: found \"Removed\""));
  EXPECT_THAT(split({{"type", "Digits"}}, false), HasSubstr("/pretokenizers/0/type: found \"Digi"));
}

TEST_F(BpeFilesTest, MergesMayBeTextAsInOlderFiles) {
  EXPECT_EQ(ErrorOfJson([](Json& json) {
              for (Json& merge : json["model"]["merges"]) {
                merge = merge[0].get<std::string>() + " " + merge[1].get<std::string>();
              }
            }),
            "no error");
  const auto tokenizer = OpenTokenizer({.name = folder_.Path("tokenizer.json")});
  EXPECT_EQ(test::Encode(*tokenizer, "the weights"),
            test::Encode(*test::GoldenTokenizer(), "the weights"));
}

TEST(TokenizerChoiceTest, AnUnknownFormIsAnsweredByTheKnownOnes) {
  for (const char* const name : {"", "gpt2", "model.bin", "gpt3:x", "Bytes"}) {
    EXPECT_THAT(ConfigErrorOf([&] { OpenTokenizer({.name = name}); }),
                AllOf(HasSubstr("--tokenizer: found \"" + std::string(name) + '"'),
                      HasSubstr("bytes, gpt2:FOLDER, FILE.json, sentencepiece:FILE")));
  }
  EXPECT_EQ(OpenTokenizer({.name = "byte"})->vocab_size(), 256);
}

TEST(TokenizerChoiceTest, OptionsThatATokenizerLacksAreRefused) {
  EXPECT_THAT(ConfigErrorOf([] { OpenTokenizer({.name = "bytes", .finds_specials = true}); }),
              HasSubstr("--parse-special"));
  EXPECT_THAT(ConfigErrorOf([] { OpenTokenizer({.name = "bytes", .end_of_document = "x"}); }),
              HasSubstr("--eod-token"));
  const test::TestFolder folder;
  Json json = Json::parse(test::ReadFile(kTokenizerJson));
  json["added_tokens"] = Json::array();
  const std::string path = folder.Write("tokenizer.json", json.dump());
  EXPECT_THAT(ConfigErrorOf([&] { OpenTokenizer({.name = path, .ends_documents = true}); }),
              AllOf(HasSubstr("--append-eod"), HasSubstr("--eod-token")));
  EXPECT_EQ(
      ConfigErrorOf([&] {
        OpenTokenizer({.name = path, .ends_documents = true, .end_of_document = "<|endoftext|>"});
      }),
      "no error");
}

}  // namespace
}  // namespace tessera::engine
