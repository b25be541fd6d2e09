// `tessera data` with the tokenizers, and training on what it wrote, as a user runs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <filesystem>
#include <memory>
#include <set>
#include <thread>

#include "tests/integration/refusal.h"
#include "tests/integration/small_job.h"

namespace tessera::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const std::string kVocabulary = TESSERA_SOURCE_DIR "/tests/golden/tokenizer";
const std::string kGpt2 = " --tokenizer gpt2:" + kVocabulary;

TEST(DataCommandTest, TextIsTokenizedAndShownAgain) {
  const TemporaryFolder folder;
  folder.Write("a.txt", "The weights aren't sharded.\nn\xC3\xA9\n");
  RunWell("data build a.txt --split-lines --append-eod --quiet --out a" + kGpt2, folder);
  const auto summary = RunForJson("data inspect a --documents 2" + kGpt2, folder);
  EXPECT_EQ(summary["documents"], 2);
  EXPECT_EQ(summary["first_text"],
            "The weights aren't sharded.<|endoftext|>n\xC3\xA9<|endoftext|>");
  ASSERT_EQ(summary["first_documents"].size(), 2u);
  EXPECT_EQ(summary["first_documents"][1]["first_text"], "n\xC3\xA9<|endoftext|>");
  const std::string table = RunWell("data inspect a --documents 1 --tokens 2" + kGpt2, folder);
  EXPECT_THAT(table, HasSubstr("as text                 The weights\n"));
  EXPECT_THAT(table, HasSubstr("tokens: The weights\n"));
}

TEST(DataCommandTest, TheFormsOfAVocabularyGiveTheSameFiles) {
  const TemporaryFolder folder;
  folder.Write("a.jsonl", "{\"text\": \"the bubble <|endoftext|> shrinks\"}\n{\"text\": \"x\"}\n");
  const std::string json = " --tokenizer " + kVocabulary + "/tokenizer.json";
  RunWell("data build a.jsonl --append-eod --quiet --out folder --workers 1" + kGpt2, folder);
  RunWell("data build a.jsonl --append-eod --quiet --out file --workers 3" + json, folder);
  EXPECT_EQ(folder.Read("folder.bin"), folder.Read("file.bin"));
  EXPECT_EQ(folder.Read("folder.idx"), folder.Read("file.idx"));
  const auto built = RunForJson(
      "data build a.jsonl --append-eod --parse-special --quiet --out special" + kGpt2, folder);
  EXPECT_EQ(built["vocab_size"], 677);
  EXPECT_EQ(built["tokenizer"], "gpt2:" + kVocabulary);
  EXPECT_LT(built["tokens"].get<int>() * 2, static_cast<int>(folder.Read("folder.bin").size()));
}

TEST(DataCommandTest, ProgressTellsSpeedAndTimeLeft) {
  const TemporaryFolder folder;
  folder.Write("a.txt", SmallText(200));
  const CommandResult told = RunCommand("data build a.txt --out a" + kGpt2, folder);
  EXPECT_THAT(told.err,
              ::testing::ContainsRegex("\\(100 %\\) in [0-9.]+ s, [0-9.]+ MB/s, ETA 0 s"));
  EXPECT_EQ(RunCommand("data build a.txt --quiet --out a" + kGpt2, folder).err, "");
}

TEST(DataCommandTest, WhenInterruptedItLeavesNoFiles) {
  const TemporaryFolder folder;
  std::string text;
  const std::string part = SmallText(2000);
  while (text.size() < 40'000'000) text += part;
  folder.Write("large.txt", text);
  RunningCommand command("data build large.txt --quiet --out large" + kGpt2, folder);
  const auto names = [&] {
    std::set<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      found.insert(entry.path().filename().string());
    }
    return found;
  };
  while (names().size() < 3 && !command.HasEnded()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  command.Interrupt();
  const CommandResult result = command.Wait();
  EXPECT_EQ(result.exit_code, base::kExitFailure) << result.err;
  EXPECT_THAT(result.ErrorLines(), ElementsAre("interrupted: no file is written"));
  EXPECT_THAT(names(), ElementsAre("large.txt"));
}

TEST(DataCommandTest, TokenizersThatCannotBeUsedAreNamed) {
  const TemporaryFolder folder;
  folder.Write("a.txt", "text");
  const auto refused = [&](const std::string& flags, const std::vector<std::string>& words) {
    ExpectRefusal("data build a.txt --out a " + flags, base::kExitWrongInput, words, folder);
  };
  refused("--tokenizer gpt3", {"--tokenizer", "\"gpt3\"", "gpt2:FOLDER"});
  refused("--tokenizer gpt2:none", {"none/vocab.json"});
  refused("--tokenizer none.model", {"none.model"});
  refused("--tokenizer bytes --parse-special", {"--parse-special"});
  refused("--eod-token x" + kGpt2, {"--eod-token", "--append-eod"});
  refused("--append-eod --eod-token <x>" + kGpt2, {"<x>"});
  EXPECT_FALSE(std::filesystem::exists(folder.Path("a.bin")));
}

class BlendTest : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<TemporaryFolder>();
    MakeSmallJob(*folder_);
    PlanSmall("--dp 4", "plan.json", *folder_);
    folder_->Write("lines.txt", SmallText(400));
    RunWell("data build lines.txt --split-lines --append-eod --out lines --quiet", *folder_);
  }
  static void TearDownTestSuite() { folder_.reset(); }

  static std::vector<nlohmann::json> Train(const std::string& flags) {
    RunWell("train --plan plan.json --steps 3 --quiet --metrics rows.jsonl " + flags, *folder_);
    return ReadRows("rows.jsonl", *folder_);
  }

  static std::unique_ptr<TemporaryFolder> folder_;
};

std::unique_ptr<TemporaryFolder> BlendTest::folder_;

TEST_F(BlendTest, WeightsMatterBesideEachOtherOnly) {
  const auto rows = Train("--data 0.7 corpus 0.3 lines");
  ASSERT_EQ(rows.size(), 3u);
  ExpectSameLosses(Train("--data-path 7 corpus 3 lines"), rows, 0);
  EXPECT_NE(Train("--data 0.3 corpus 0.7 lines")[0]["loss"], rows[0]["loss"]);
}

TEST_F(BlendTest, ASplitTrainsOnItsFirstPart) {
  const auto rows = Train("--data lines --split 90,5,5");
  ExpectSameLosses(Train("--data lines --split 900,100"), rows, 0);
  EXPECT_NE(Train("--data lines")[0]["loss"], rows[0]["loss"]);
}

TEST_F(BlendTest, WhatIsNoBlendOrSplitIsNamed) {
  const auto refused = [&](const std::string& flags, const std::vector<std::string>& words) {
    ExpectRefusal("train --plan plan.json --steps 3 --quiet " + flags, base::kExitWrongInput, words,
                  *folder_);
  };
  refused("--data 0.7 corpus x lines", {"--data", "\"x\" before \"lines\""});
  refused("--data 0.7 corpus 0.3 missing", {"missing"});
  refused("--data corpus --split 1,2,3,4", {"split", "\"1,2,3,4\""});
  refused("--data corpus --split 0,1", {"corpus.bin", "0 of 1 documents", "training part"});
}

}  // namespace
}  // namespace tessera::testing
