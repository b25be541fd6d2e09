#include "engine/data/dataset_builder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <string>
#include <vector>

#include "cost_model/base/error.h"
#include "engine/data/byte_tokenizer.h"
#include "engine/data/dataset_report_json.h"
#include "engine/data/dataset_summary.h"
#include "engine/data/indexed_dataset.h"
#include "tests/engine/data_test_files.h"
#include "tests/engine/tokenizer_test_data.h"

namespace tessera::engine {
namespace {

using test::Bytes;
using test::ConfigErrorOf;
using test::ReadFile;
using test::TestFolder;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class DatasetBuilderTest : public ::testing::Test {
 protected:
  BuildResult Build(BuildOptions options) const {
    options.output_prefix = folder_.Path("out");
    return BuildIndexedDataset(options, nullptr);
  }
  std::string BuildErrorOf(const BuildOptions& options) const {
    return ConfigErrorOf([&] { Build(options); });
  }
  // The documents of the built pair; the end of document reads "<|end|>".
  std::vector<std::string> Documents() const {
    const IndexedDataset dataset(folder_.Path("out"));
    std::vector<std::string> documents;
    for (int64_t i = 0; i < dataset.num_documents(); ++i) {
      EXPECT_EQ(dataset.DocumentIndex(i), i);
      const TokenView view = dataset.Sequence(i);
      std::vector<int32_t> tokens(static_cast<size_t>(view.num_tokens));
      CopyTokens(view, 0, view.num_tokens, tokens.data());
      documents.push_back(PrintableTokens(ByteTokenizer(true), tokens));
    }
    return documents;
  }

  TestFolder folder_;
};

TEST_F(DatasetBuilderTest, AFileIsOneDocument) {
  const std::string a = folder_.Write("a.txt", "one\ntwo\n");
  const std::string b = folder_.Write("b.txt", "three");
  const BuildResult result = Build({.inputs = {{.path = b}, {.path = a}}});
  EXPECT_THAT(Documents(), ElementsAre("three", "one\\ntwo\\n"));
  EXPECT_EQ(result.num_tokens, 13);
  EXPECT_EQ(result.num_documents, 2);
  EXPECT_EQ(result.vocab_size, 256);
  EXPECT_EQ(ReadFile(result.bin_path),
            Bytes<uint16_t>('t', 'h', 'r', 'e', 'e', 'o', 'n', 'e', '\n', 't', 'w', 'o', '\n'));
}

TEST_F(DatasetBuilderTest, AnEndOfDocumentClosesEachDocument) {
  const std::string a = folder_.Write("a.txt", "one\ntwo\n");
  const BuildResult result =
      Build({.inputs = {{.path = a}}, .tokenizer = {.ends_documents = true}});
  EXPECT_THAT(Documents(), ElementsAre("one\\ntwo\\n<|end|>"));
  EXPECT_EQ(result.num_tokens, 9);
  EXPECT_EQ(result.vocab_size, 257);
}

TEST_F(DatasetBuilderTest, ALineIsADocumentWithoutItsEnd) {
  const std::string a = folder_.Write("a.txt", "one\r\n\n two \nlast");
  const BuildResult result = Build({.inputs = {{.path = a, .unit = DocumentUnit::kLine}}});
  EXPECT_THAT(Documents(), ElementsAre("one", " two ", "last"));
  EXPECT_EQ(result.num_empty_documents, 1);
}

TEST_F(DatasetBuilderTest, ARecordIsADocument) {
  const std::string a = folder_.Write("a.jsonl",
                                      "{\"text\": \"caf\\u00e9\\n\", \"id\": 1}\n"
                                      "  \r\n"
                                      "{\"text\": \"\"}\n"
                                      "{\"id\": [2], \"text\": \"\xE2\x82\xAC\"}");
  const BuildResult result =
      Build({.inputs = {{.path = a, .unit = DocumentUnit::kJsonRecord, .json_key = "text"}}});
  EXPECT_THAT(Documents(), ElementsAre("caf\xC3\xA9\\n", "\xE2\x82\xAC"));
  EXPECT_EQ(result.num_empty_documents, 1);
}

TEST_F(DatasetBuilderTest, ABrokenRecordIsNamedByItsLineAndLeavesNoFiles) {
  const std::string good = "{\"text\": \"fine\"}\n";
  struct Case {
    std::string line;
    std::string found;
  };
  const std::vector<Case> cases = {{"{\"text\": \"x\"", "found broken JSON (syntax error"},
                                   {"{\"text\": 3}", "found number under \"text\""},
                                   {"[1]", "found JSON array"},
                                   {"{\"body\": \"x\"}", "found an object without that key"},
                                   {"{\"text\": \"\xFF\"}", "found broken JSON"}};
  for (const Case& c : cases) {
    const std::string path = folder_.Write("a.jsonl", good + "\n" + good + c.line + "\n" + good);
    for (const int64_t chunk_bytes : {1, 20, 1000}) {
      BuildOptions options = {
          .inputs = {{.path = path, .unit = DocumentUnit::kJsonRecord, .json_key = "text"}}};
      options.num_workers = 3;
      options.chunk_bytes = chunk_bytes;
      EXPECT_THAT(BuildErrorOf(options), HasSubstr("a.jsonl: line 4: " + c.found)) << chunk_bytes;
      EXPECT_EQ(folder_.NumFiles(), 1u);
    }
  }
}

TEST_F(DatasetBuilderTest, TheFilesDependOnNeitherWorkersNorChunks) {
  std::string text;
  std::string records;
  for (int i = 0; i < 300; ++i) {
    text += std::string(static_cast<size_t>(i * 7 % 60), static_cast<char>('a' + i % 26)) + "\n";
    records += "{\"text\": \"" + std::string(static_cast<size_t>(i * 5 % 40), 'x') + "\"}\n";
  }
  const std::string a = folder_.Write("a.txt", text);
  const std::string b = folder_.Write("b.jsonl", records);
  const std::string empty = folder_.Write("empty.txt", "");
  BuildOptions options = {
      .inputs = {{.path = a},
                 {.path = a, .unit = DocumentUnit::kLine},
                 {.path = empty},
                 {.path = b, .unit = DocumentUnit::kJsonRecord, .json_key = "text"}},
      .tokenizer = {.ends_documents = true}};
  const BuildResult first = Build(options);
  const std::string bin = ReadFile(first.bin_path);
  const std::string idx = ReadFile(first.idx_path);
  for (const int num_workers : {1, 3}) {
    for (const int64_t chunk_bytes : {1, 13, 1000}) {
      options.num_workers = num_workers;
      options.chunk_bytes = chunk_bytes;
      const BuildResult result = Build(options);
      EXPECT_TRUE(ReadFile(result.bin_path) == bin) << num_workers << ' ' << chunk_bytes;
      EXPECT_TRUE(ReadFile(result.idx_path) == idx) << num_workers << ' ' << chunk_bytes;
      EXPECT_EQ(result.num_empty_documents, first.num_empty_documents);
    }
  }
}

// Cut at ends of words, by several threads, the documents are those of the whole text.
TEST_F(DatasetBuilderTest, MergedTokensDependOnNeitherWorkersNorChunks) {
  std::string text;
  std::string records;
  for (int i = 0; i < 200; ++i) {
    text += base::Concat("The weights of layer ", i, " aren't  gathered;\n\n they're caf\xC3\xA9 ",
                         i % 7, i % 5 == 0 ? " \xFF\xC3 " : "\t");
    records += base::Concat("{\"text\": \"the optimizer's state ", i * i, "\"}\n");
  }
  const auto tokenizer = test::GoldenTokenizer();
  BuildOptions options = {
      .inputs = {{.path = folder_.Write("a.txt", text)},
                 {.path = folder_.Write("b.jsonl", records),
                  .unit = DocumentUnit::kJsonRecord,
                  .json_key = "text"}},
      .tokenizer = {.name = "gpt2:" + test::kTokenizerFolder, .ends_documents = true}};
  std::vector<int32_t> expected = test::Encode(*tokenizer, text);
  expected.push_back(676);
  for (int i = 0; i < 200; ++i) {
    const std::string record = base::Concat("the optimizer's state ", i * i);
    for (const int32_t token : test::Encode(*tokenizer, record)) expected.push_back(token);
    expected.push_back(676);
  }
  std::string bin;
  for (const int32_t token : expected) bin += Bytes<uint16_t>(token);
  std::string idx;
  for (const int num_workers : {1, 2, 3}) {
    for (const int64_t chunk_bytes : {1, 100, 3000, 1 << 20}) {
      options.num_workers = num_workers;
      options.chunk_bytes = chunk_bytes;
      const BuildResult result = Build(options);
      EXPECT_TRUE(ReadFile(result.bin_path) == bin) << num_workers << ' ' << chunk_bytes;
      EXPECT_EQ(result.num_documents, 201);
      EXPECT_EQ(result.vocab_size, 677);
      if (idx.empty()) idx = ReadFile(result.idx_path);
      EXPECT_TRUE(ReadFile(result.idx_path) == idx) << num_workers << ' ' << chunk_bytes;
    }
  }
}

TEST_F(DatasetBuilderTest, WhenStoppedItLeavesNoFiles) {
  const std::string a = folder_.Write("a.txt", std::string(1000, 'a'));
  std::atomic<bool> stop = false;
  BuildOptions options = {.inputs = {{.path = a}}, .output_prefix = folder_.Path("out")};
  options.num_workers = 2;
  options.chunk_bytes = 10;
  options.stop = &stop;
  int num_calls = 0;
  EXPECT_THROW(BuildIndexedDataset(options, [&](const BuildProgress&) { stop = ++num_calls == 5; }),
               base::SystemError);
  EXPECT_EQ(num_calls, 5);
  EXPECT_EQ(folder_.NumFiles(), 1u);
}

TEST_F(DatasetBuilderTest, ProgressEndsWithAllBytesDone) {
  const std::string a = folder_.Write("a.txt", std::string(1000, 'a'));
  BuildProgress last;
  int num_calls = 0;
  BuildOptions options = {.inputs = {{.path = a}}, .output_prefix = folder_.Path("out")};
  options.chunk_bytes = 100;
  BuildIndexedDataset(options, [&](const BuildProgress& now) {
    EXPECT_GT(now.done_bytes, last.done_bytes);
    last = now;
    ++num_calls;
  });
  EXPECT_EQ(last.done_bytes, 1000);
  EXPECT_EQ(last.total_bytes, 1000);
  EXPECT_EQ(num_calls, 10);
}

TEST_F(DatasetBuilderTest, NoTextAndNoFileAreTheUsersMistake) {
  const std::string empty = folder_.Write("empty.txt", "");
  EXPECT_THAT(BuildErrorOf({.inputs = {{.path = empty}}}), HasSubstr("without any text"));
  EXPECT_THAT(BuildErrorOf({.inputs = {{.path = folder_.Path("no.txt")}}}),
              HasSubstr("no.txt: found No such file"));
  EXPECT_EQ(folder_.NumFiles(), 1u);
}

TEST_F(DatasetBuilderTest, TheSummaryCountsAndShowsTheFirstTokens) {
  const std::string a = folder_.Write("a.txt", "one\nfour\nsix");
  Build({.inputs = {{.path = a, .unit = DocumentUnit::kLine}},
         .tokenizer = {.ends_documents = true}});
  const DatasetSummary summary = SummarizeDataset(folder_.Path("out"), DataFormat::kAuto,
                                                  {.num_first_tokens = 6, .find_max_token = true});
  EXPECT_EQ(summary.format, DataFormat::kIndexed);
  EXPECT_EQ(summary.num_documents, 3);
  EXPECT_EQ(summary.num_sequences, 3);
  EXPECT_EQ(summary.num_tokens, 13);
  EXPECT_EQ(summary.token_bytes, 26);
  EXPECT_EQ(summary.shortest_sequence, 4);
  EXPECT_EQ(summary.longest_sequence, 5);
  EXPECT_THAT(summary.first_tokens, ElementsAre('o', 'n', 'e', 256, 'f', 'o'));
  EXPECT_EQ(summary.first_text, "one<|end|>fo");
  EXPECT_EQ(summary.max_token, 256);
  EXPECT_TRUE(summary.documents.empty());
  const std::string json = ToJson(summary);
  EXPECT_THAT(json, HasSubstr("\"tokens\": 13"));
  EXPECT_THAT(json, HasSubstr("\"sequence_count\": 3"));
  EXPECT_THAT(json, HasSubstr("\"data_format\": \"idx\""));
}

TEST_F(DatasetBuilderTest, TheSummaryShowsTheFirstDocumentsInTheTokenizersWords) {
  const std::string a = folder_.Write("a.txt", "the weights\nare  sharded\nn\xC3\xA9");
  const std::string name = "gpt2:" + test::kTokenizerFolder;
  Build({.inputs = {{.path = a, .unit = DocumentUnit::kLine}},
         .tokenizer = {.name = name, .ends_documents = true}});
  const auto summarize = [&](const SummaryOptions& options) {
    return SummarizeDataset(folder_.Path("out"), DataFormat::kAuto, options);
  };
  const DatasetSummary summary = summarize({.num_documents = 2, .tokenizer = name});
  EXPECT_EQ(summary.first_text,
            "the weights<|endoftext|>are  sharded<|endoftext|>n\xC3\xA9<|endoftext|>");
  ASSERT_EQ(summary.documents.size(), 2u);
  EXPECT_EQ(summary.documents[1].first_text, "are  sharded<|endoftext|>");
  EXPECT_EQ(
      summary.documents[1].num_tokens,
      static_cast<int64_t>(test::Encode(*test::GoldenTokenizer(), "are  sharded").size() + 1));
  EXPECT_THAT(ToJson(summary), HasSubstr("\"first_text\": \"are  sharded<|endoftext|>\""));
  const DatasetSummary short_ones =
      summarize({.num_first_tokens = 1, .num_documents = 9, .tokenizer = name});
  ASSERT_EQ(short_ones.documents.size(), 3u);
  EXPECT_EQ(short_ones.documents[2].first_text, "n");
  EXPECT_EQ(summarize({}).first_text, "") << "no bytes";
  const std::string raw = folder_.Write("high.u16", Bytes<uint16_t>(65, 677));
  EXPECT_THAT(ConfigErrorOf([&] { SummarizeDataset(raw, DataFormat::kAuto, {.tokenizer = name}); }),
              HasSubstr("high.u16: found token id 677, expected tokens of gpt2:"));
}

}  // namespace
}  // namespace tessera::engine
