#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/data/dataset_builder.h"
#include "engine/data/dataset_summary.h"
#include "engine/data/sentencepiece_tokenizer.h"
#include "tests/engine/data_test_files.h"
#include "tests/engine/sentencepiece_model.h"
#include "tests/engine/tokenizer_test_data.h"

namespace tessera::engine {
namespace {

using test::ConfigErrorOf;
using test::Encode;
using test::kBpe;
using test::kControl;
using test::kTinyPieces;
using test::kUnigram;
using test::kUnknown;
using test::ModelKind;
using test::ModelPiece;
using test::SentencePieceModel;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class SentencePieceTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!HasSentencePiece()) GTEST_SKIP() << "a build without SentencePiece";
  }
  std::string Write(ModelKind kind, const std::vector<ModelPiece>& pieces) const {
    return folder_.Write("tiny.model", SentencePieceModel(kind, pieces));
  }
  std::unique_ptr<Tokenizer> Open(ModelKind kind) const {
    return OpenTokenizer({.name = Write(kind, kTinyPieces)});
  }

  test::TestFolder folder_;
};

// A unigram model takes the pieces whose scores add up to most.
TEST_F(SentencePieceTest, AUnigramModelTakesTheLikeliestPieces) {
  const auto tokenizer = Open(kUnigram);
  EXPECT_EQ(tokenizer->vocab_size(), 9);
  EXPECT_EQ(tokenizer->end_of_document(), 2);
  // "_ab" -5.5; "_" "ab" -6; "_" "a" "b" -8.
  EXPECT_THAT(Encode(*tokenizer, "ab"), ElementsAre(7));
  // "_ab" "ab" -9.5; "_" "a" "ba" "b" -9.
  EXPECT_THAT(Encode(*tokenizer, "abab"), ElementsAre(3, 4, 8, 5));
  // "_" "a" "_ab" -10.5.
  EXPECT_THAT(Encode(*tokenizer, "a ab"), ElementsAre(3, 4, 7));
  EXPECT_THAT(Encode(*tokenizer, "ac"), ElementsAre(3, 4, 0));
  EXPECT_THAT(Encode(*tokenizer, ""), ElementsAre());
}

// A BPE model merges the neighbours that make the piece of the highest score.
TEST_F(SentencePieceTest, ABpeModelMergesTheHighestScoreFirst) {
  const auto tokenizer = Open(kBpe);
  // "ba" -1 before "ab" -4: "_" "a" "ba" "b".
  EXPECT_THAT(Encode(*tokenizer, "abab"), ElementsAre(3, 4, 8, 5));
  // "ab" -4, then "_ab" -5.5.
  EXPECT_THAT(Encode(*tokenizer, "ab"), ElementsAre(7));
}

TEST_F(SentencePieceTest, TextComesBackFromItsTokens) {
  for (const ModelKind kind : {kUnigram, kBpe}) {
    const auto tokenizer = Open(kind);
    for (const char* const text : {"ab", "a b", "abba  baab", "b a"}) {
      EXPECT_EQ(tokenizer->Decode(Encode(*tokenizer, text)), text);
    }
    EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{9}), std::nullopt);
    EXPECT_EQ(tokenizer->Decode(std::vector<int32_t>{-1}), std::nullopt);
  }
}

// The library throws where its index takes a piece for an empty one.
TEST_F(SentencePieceTest, AModelWithAPieceThatBeginsWithNulIsRefused) {
  std::vector<ModelPiece> pieces = kTinyPieces;
  pieces.push_back({std::string("\0a", 2), -1});
  EXPECT_THAT(ConfigErrorOf([&] { OpenTokenizer({.name = Write(kUnigram, pieces)}); }),
              HasSubstr("bytes that are no model"));
}

TEST_F(SentencePieceTest, DocumentsAreWholeAndEndAsTheModelSays) {
  const std::string text = folder_.Write("text.txt", "abab\nab");
  BuildOptions options = {.inputs = {{.path = text, .unit = DocumentUnit::kLine}},
                          .output_prefix = folder_.Path("out"),
                          .tokenizer = {.name = "sentencepiece:" + Write(kUnigram, kTinyPieces),
                                        .ends_documents = true}};
  for (const int num_workers : {1, 3}) {
    options.num_workers = num_workers;
    options.chunk_bytes = 2;
    BuildIndexedDataset(options, nullptr);
    EXPECT_EQ(test::ReadFile(folder_.Path("out.bin")), test::Bytes<uint16_t>(3, 4, 8, 5, 2, 7, 2));
  }
  const DatasetSummary summary =
      SummarizeDataset(folder_.Path("out"), DataFormat::kAuto,
                       {.num_documents = 5, .tokenizer = options.tokenizer.name});
  ASSERT_EQ(summary.documents.size(), 2u);
  EXPECT_EQ(summary.documents[0].first_text, "abab");
  EXPECT_EQ(summary.documents[0].num_tokens, 5);
}

TEST_F(SentencePieceTest, AModelWithoutAnEndOfASentenceNeedsOneNamed) {
  const std::string path =
      Write(kUnigram, {{"<unk>", 0, kUnknown}, {"a", -1}, {"<end>", 0, kControl}});
  EXPECT_EQ(OpenTokenizer({.name = path})->end_of_document(), std::nullopt);
  EXPECT_EQ(OpenTokenizer({.name = path, .end_of_document = "<end>"})->end_of_document(), 2);
  EXPECT_THAT(ConfigErrorOf([&] { OpenTokenizer({.name = path, .end_of_document = "<x>"}); }),
              HasSubstr("tiny.model: found no piece \"<x>\""));
  EXPECT_THAT(ConfigErrorOf([&] { OpenTokenizer({.name = path, .finds_specials = true}); }),
              HasSubstr("--parse-special"));
}

TEST_F(SentencePieceTest, AFileThatIsNoModelIsNamed) {
  for (const char* const bytes : {"", "no model", "\xFF\xFF"}) {
    const std::string path = folder_.Write("bad.model", bytes);
    EXPECT_THAT(ConfigErrorOf([&] { OpenTokenizer({.name = path}); }),
                HasSubstr("bad.model: found " + std::to_string(std::strlen(bytes)) + " bytes"));
  }
  EXPECT_THAT(ConfigErrorOf([&] { OpenTokenizer({.name = "sentencepiece:/no/such.model"}); }),
              HasSubstr("/no/such.model: found No such file"));
}

TEST(SentencePieceAbsentTest, ABuildWithoutTheLibrarySaysSo) {
  if (HasSentencePiece()) GTEST_SKIP() << "a build with SentencePiece";
  EXPECT_THAT(ConfigErrorOf([] { OpenTokenizer({.name = "some.model"}); }),
              HasSubstr("libsentencepiece-dev"));
}

}  // namespace
}  // namespace tessera::engine
