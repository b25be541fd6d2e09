// Which checkpoint of a save folder is taken when the newest ones are torn or damaged.
#include "engine/checkpoint/checkpoint_choice.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/checkpoint/crc32.h"
#include "engine/checkpoint/file_io.h"
#include "tests/engine/checkpoint_test_state.h"
#include "tests/engine/data_test_files.h"
#include "tests/testing/run_ranks.h"

namespace tessera::engine {
namespace {

using test::ConfigErrorOf;
using test::Layout;
using test::RankState;
using test::ReadFile;
using test::TestFolder;
using test::TinyLlama;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kData[] = "rank_00001.safetensors";

// A save folder with checkpoints of steps 1, 2 and 3, of two ranks each.
class CheckpointChoiceTest : public ::testing::Test {
 protected:
  CheckpointChoiceTest() {
    const spec::RankLayout layout(Layout(1, 1, 2));
    for (const int64_t step : {1, 2, 3}) {
      testing::RunRanks(2, [&](Communicator& world) {
        RankState rank(TinyLlama(), Layout(1, 1, 2), layout.CoordOf(world.rank()));
        rank.FillWithReference();
        rank.state().progress.step = step;
        SaveCheckpoint(rank.state(), {.model = TinyLlama()}, world, save_);
      });
    }
  }

  std::string Checkpoint(int64_t step) const { return save_ + "/" + CheckpointFolderName(step); }
  std::string Read(int64_t step, const std::string& name) const {
    return ReadFile(Checkpoint(step) + "/" + name);
  }
  void Write(int64_t step, const std::string& name, const std::string& bytes) const {
    folder_.Write("save/" + CheckpointFolderName(step) + "/" + name, bytes);
  }
  void FlipBit(int64_t step, const std::string& name, size_t byte) const {
    std::string bytes = Read(step, name);
    bytes.at(byte) ^= 4;
    Write(step, name, bytes);
  }

  // The choice of three ranks, which must be one.
  CheckpointChoice Choose() const {
    std::vector<CheckpointChoice> choices(3);
    testing::RunRanks(3, [&](Communicator& world) {
      choices[static_cast<size_t>(world.rank())] = ChooseCheckpoint(save_, world);
    });
    for (const CheckpointChoice& other : choices) {
      EXPECT_EQ(other.folder, choices[0].folder);
      EXPECT_EQ(other.passed_over.size(), choices[0].passed_over.size());
      for (size_t i = 0; i < other.passed_over.size(); ++i) {
        EXPECT_EQ(other.passed_over[i].problem, choices[0].passed_over.at(i).problem);
      }
    }
    return choices[0];
  }

  const TestFolder folder_;
  const std::string save_ = folder_.Path("save");
};

TEST_F(CheckpointChoiceTest, TheNewestIsTakenWhereItIsWhole) {
  const CheckpointChoice choice = Choose();
  EXPECT_EQ(choice.folder, Checkpoint(3));
  EXPECT_TRUE(choice.passed_over.empty());
}

TEST_F(CheckpointChoiceTest, EveryDamageOfTheNewestLeadsToTheOneBeforeAndIsNamed) {
  struct Damage {
    std::function<void()> act;
    std::string where;
    std::string what;
  };
  const std::string manifest = Read(3, "manifest.json");
  const std::string data = Read(3, kData);
  const std::vector<Damage> damages = {
      {[&] { std::filesystem::remove(Checkpoint(3) + "/" + kData); }, kData, "No such file"},
      {[&] { Write(3, kData, data.substr(0, data.size() / 2)); }, kData, ""},
      {[&] { Write(3, kData, ""); }, kData, ""},
      {[&] { FlipBit(3, kData, data.size() - 1); }, kData, "checksum"},
      {[&] { FlipBit(3, kData, 20); }, kData, ""},  // in the header
      {[&] { FlipBit(3, "manifest.json", manifest.size() / 2); }, "manifest.json", "COMPLETE"},
      {[&] { std::filesystem::remove(Checkpoint(3) + "/manifest.json"); }, "manifest.json", ""},
      {[&] { FlipBit(3, "model.json", 10); }, "model.json", "COMPLETE"},
      {[&] { std::filesystem::remove(Checkpoint(3) + "/COMPLETE"); }, "", "no COMPLETE"},
      {[&] { FlipBit(3, "COMPLETE", 20); }, "manifest.json", "COMPLETE"},
      {[&] { Write(3, "COMPLETE", ""); }, "manifest.json", "COMPLETE"}};
  const TestFolder kept;
  std::filesystem::copy(Checkpoint(3), kept.Path("3"), std::filesystem::copy_options::recursive);
  for (size_t i = 0; i < damages.size(); ++i) {
    damages[i].act();
    const CheckpointChoice choice = Choose();
    EXPECT_EQ(choice.folder, Checkpoint(2)) << i;
    ASSERT_EQ(choice.passed_over.size(), 1U) << i;
    EXPECT_EQ(choice.passed_over[0].folder, Checkpoint(3)) << i;
    EXPECT_THAT(
        choice.passed_over[0].problem,
        AllOf(HasSubstr(Checkpoint(3)), HasSubstr(damages[i].where), HasSubstr(damages[i].what)))
        << i;
    std::filesystem::remove_all(Checkpoint(3));
    std::filesystem::copy(kept.Path("3"), Checkpoint(3), std::filesystem::copy_options::recursive);
    ASSERT_EQ(Choose().folder, Checkpoint(3)) << i;
  }
}

TEST_F(CheckpointChoiceTest, AllDamagedOnesArePassedOver) {
  FlipBit(2, "rank_00000.safetensors", 2000);
  std::filesystem::remove(Checkpoint(3) + "/COMPLETE");
  const CheckpointChoice choice = Choose();
  EXPECT_EQ(choice.folder, Checkpoint(1));
  ASSERT_EQ(choice.passed_over.size(), 2U);
  EXPECT_THAT(choice.passed_over[0].problem, HasSubstr("no COMPLETE"));
  EXPECT_THAT(choice.passed_over[1].problem, HasSubstr(Checkpoint(2) + "/rank_00000.safetensors"));
}

TEST_F(CheckpointChoiceTest, WithoutAnyWholeOneAllProblemsAreTold) {
  for (const int64_t step : {1, 2, 3}) Write(step, "COMPLETE", "");
  EXPECT_THAT(ConfigErrorOf([&] { Choose(); }),
              AllOf(HasSubstr(save_), HasSubstr("no whole checkpoint"), HasSubstr("step_00000001"),
                    HasSubstr("step_00000002"), HasSubstr("step_00000003")));
}

TEST_F(CheckpointChoiceTest, WhatAnInterruptedSaveLeftIsNoCheckpoint) {
  std::filesystem::rename(Checkpoint(3), Checkpoint(3) + ".tmp-7-8");
  const CheckpointChoice choice = Choose();
  EXPECT_EQ(choice.folder, Checkpoint(2));
  EXPECT_TRUE(choice.passed_over.empty());
}

TEST_F(CheckpointChoiceTest, ACheckpointThatWasBeingReplacedStandsInForItsReplacement) {
  std::filesystem::copy(Checkpoint(3), Checkpoint(3) + ".replaced",
                        std::filesystem::copy_options::recursive);
  EXPECT_EQ(Choose().folder, Checkpoint(3));
  std::filesystem::remove(Checkpoint(3) + "/COMPLETE");
  EXPECT_EQ(Choose().folder, Checkpoint(3) + ".replaced");
}

TEST_F(CheckpointChoiceTest, ACheckpointsOwnFolderIsTakenAsItIs) {
  FlipBit(3, kData, 2000);
  testing::RunRanks(2, [&](Communicator& world) {
    EXPECT_EQ(ChooseCheckpoint(Checkpoint(3), world).folder, Checkpoint(3));
  });
}

// It is whole: to go on from an older one would lose work without need.
TEST_F(CheckpointChoiceTest, ACheckpointOfALaterFormatIsNoDamage) {
  std::string manifest = Read(3, "manifest.json");
  const std::string version = "\"format_version\": 3";
  manifest.replace(manifest.find(version), version.size(), "\"format_version\": 9");
  Write(3, "manifest.json", manifest);
  const std::string model = Read(3, "model.json");
  Write(
      3, "COMPLETE",
      base::Concat("manifest.json ", manifest.size(), " bytes crc32 ", Crc32Text(Crc32(manifest)),
                   "\nmodel.json ", model.size(), " bytes crc32 ", Crc32Text(Crc32(model)), "\n"));
  EXPECT_THAT(ConfigErrorOf([&] { Choose(); }),
              AllOf(HasSubstr(Checkpoint(3)), HasSubstr("format_version"), HasSubstr("found 9")));
}

}  // namespace
}  // namespace tessera::engine
