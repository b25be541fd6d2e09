// Checkpoints written at once and behind the training, and disks that fail them.
#include "engine/checkpoint/checkpoint_saver.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <functional>
#include <map>
#include <mutex>
#include <optional>

#include "cost_model/base/error.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/checkpoint/checkpoint_reader.h"
#include "engine/checkpoint/file_io.h"
#include "tests/engine/checkpoint_test_state.h"
#include "tests/engine/data_test_files.h"
#include "tests/engine/held_disk.h"
#include "tests/engine/tiny_disk.h"
#include "tests/testing/run_ranks.h"

namespace tessera::engine {
namespace {

using test::HeldDisk;
using test::Layout;
using test::RankState;
using test::ReadFile;
using test::TestFolder;
using test::TinyDisk;
using test::TinyGpt2;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Uneven shards, padding and tied embeddings.
spec::ParallelSpec FourRanks() { return Layout(2, 2, 1); }

// What rank 0 was told, over all saves of a test.
struct Told {
  std::vector<std::string> saved;
  std::vector<std::string> warnings;

  CheckpointSaver::Callbacks Callbacks() {
    return {.on_saved = [this](const std::string& path) { saved.push_back(path); },
            .on_warning = [this](const std::string& text) { warnings.push_back(text); }};
  }
};

// Runs body(state, saver, rank) on the ranks of FourRanks, each with the reference state of step 1.
void OnSavers(const SaveOptions& options, const CheckpointSaver::Callbacks& callbacks,
              const std::function<void(RankState&, CheckpointSaver&, int)>& body) {
  const spec::RankLayout layout(FourRanks());
  testing::RunRanks(layout.world_size(), [&](Communicator& world) {
    RankState rank(TinyGpt2(), FourRanks(), layout.CoordOf(world.rank()));
    rank.FillWithReference();
    rank.state().progress.step = 1;
    CheckpointSaver saver(options, {}, world, callbacks);
    body(rank, saver, world.rank());
  });
}

const CheckpointInfo kInfo = {.model = TinyGpt2(), .seed = 5, .training = "a test"};

std::map<std::string, std::string> FilesOf(const std::string& checkpoint) {
  std::map<std::string, std::string> files;
  for (const std::string& name : ListFolder(checkpoint)) {
    files[name] = ReadFile(checkpoint + "/" + name);
  }
  return files;
}

TEST(CheckpointSaverTest, WhatIsWrittenBehindTheTrainingIsWhatWasThereWhenItBegan) {
  const TestFolder folder;
  for (const bool is_asynchronous : {false, true}) {
    const std::string save = folder.Path(is_asynchronous ? "behind" : "at-once");
    MakeFolders(save);
    Told told;
    OnSavers({.folder = save, .is_asynchronous = is_asynchronous}, told.Callbacks(),
             [](RankState& rank, CheckpointSaver& saver, int) {
               for (const int64_t step : {1, 2}) {
                 rank.FillWithReference();
                 rank.state().progress.step = step;
                 saver.Save(rank.state(), kInfo);
                 rank.Fill(-7);  // training goes on
               }
               saver.Wait();
               EXPECT_EQ(saver.last_saved_step(), 2);
             });
    EXPECT_THAT(told.saved, ElementsAre(save + "/step_00000001", save + "/step_00000002"));
    EXPECT_THAT(told.warnings, IsEmpty());
  }
  for (const std::string name : {"step_00000001", "step_00000002"}) {
    EXPECT_EQ(FilesOf(folder.Path("behind/" + name)), FilesOf(folder.Path("at-once/" + name)));
  }
  RankState rank(TinyGpt2(), Layout(1, 1, 1), {});
  LoadCheckpoint(folder.Path("behind"), TinyGpt2(), rank.state());
  EXPECT_EQ(rank.NumWrong(), 0);
}

TEST(CheckpointSaverTest, ASaveEndsByPollingAlone) {
  const TestFolder folder;
  Told told;
  OnSavers({.folder = folder.Path(""), .is_asynchronous = true}, told.Callbacks(),
           [](RankState& rank, CheckpointSaver& saver, int) {
             saver.Save(rank.state(), kInfo);
             while (saver.last_saved_step() < 1) saver.Poll();
           });
  EXPECT_TRUE(CheckpointReader(folder.Path("")).FindDamage().empty());
}

TEST(CheckpointSaverTest, OldCheckpointsGoWhenTheNewOneIsThere) {
  for (const bool is_asynchronous : {false, true}) {
    const TestFolder folder;
    Told told;
    OnSavers({.folder = folder.Path(""), .is_asynchronous = is_asynchronous, .keep_last = 2},
             told.Callbacks(), [](RankState& rank, CheckpointSaver& saver, int) {
               for (const int64_t step : {1, 2, 3, 4}) {
                 rank.state().progress.step = step;
                 saver.Save(rank.state(), kInfo);
               }
               saver.Wait();
             });
    EXPECT_THAT(ListFolder(folder.Path("")), ElementsAre("step_00000003", "step_00000004"));
    EXPECT_EQ(told.saved.size(), 4U);
  }
}

// How the saves of step 2 end on the ranks, step 1 having been saved and `disturb` been called on
// rank 0 in between; "went on" where nothing is thrown.
std::vector<std::string> SaveAfter(const SaveOptions& options, Told& told,
                                   const std::function<void()>& disturb) {
  std::vector<std::string> ends;
  std::mutex mutex;
  OnSavers(options, told.Callbacks(), [&](RankState& rank, CheckpointSaver& saver, int index) {
    saver.Save(rank.state(), kInfo);
    saver.Wait();
    if (index == 0) disturb();
    rank.state().progress.step = 2;
    std::string end = "went on";
    try {
      saver.Save(rank.state(), kInfo);  // where every rank waits for rank 0
      saver.Wait();
    } catch (const base::SystemError& error) {
      end = error.what();
    }
    EXPECT_EQ(saver.last_saved_step(), 1);
    const std::lock_guard lock(mutex);
    ends.push_back(end);
  });
  return ends;
}

// Every way to save, with every way to go on.
std::vector<SaveOptions> AllOptions(const std::string& folder) {
  std::vector<SaveOptions> all;
  for (const bool is_asynchronous : {false, true}) {
    for (const OnSaveError on_error : {OnSaveError::kStop, OnSaveError::kContinue}) {
      all.push_back({.folder = folder, .is_asynchronous = is_asynchronous, .on_error = on_error});
    }
  }
  return all;
}

void ExpectFailure(const SaveOptions& options, const Told& told,
                   const std::vector<std::string>& ends, const std::vector<std::string>& words) {
  ASSERT_EQ(ends.size(), 4U);
  std::vector<std::string> messages = ends;
  if (options.on_error == OnSaveError::kContinue) {
    for (const std::string& end : ends) EXPECT_EQ(end, "went on");
    messages = told.warnings;
    ASSERT_EQ(messages.size(), 1U);
  } else {
    EXPECT_THAT(told.warnings, IsEmpty());
  }
  for (const std::string& message : messages) {
    for (const std::string& word : words) EXPECT_THAT(message, HasSubstr(word));
  }
}

TEST(CheckpointSaverTest, AFullDiskSparesTheCheckpointBefore) {
  for (SaveOptions options : AllOptions("")) {
    const TinyDisk disk("300k");
    if (!disk.is_mounted()) GTEST_SKIP() << "may not mount a file system";
    options.folder = disk.Path("save");
    MakeFolders(options.folder);
    Told told;
    const std::vector<std::string> ends = SaveAfter(options, told, [&] { disk.FillUpTo(8192); });
    ExpectFailure(options, told, ends, {"step_00000002", "No space left on device", "write"});
    EXPECT_THAT(ListFolder(options.folder), ElementsAre("step_00000001"));
    EXPECT_TRUE(CheckpointReader(options.folder).FindDamage().empty());
  }
}

TEST(CheckpointSaverTest, AReadOnlyDiskSparesTheCheckpointBefore) {
  for (SaveOptions options : AllOptions("")) {
    const TinyDisk disk("2m");
    if (!disk.is_mounted()) GTEST_SKIP() << "may not mount a file system";
    options.folder = disk.Path("save");
    MakeFolders(options.folder);
    Told told;
    const std::vector<std::string> ends =
        SaveAfter(options, told, [&] { EXPECT_TRUE(disk.MakeReadOnly()); });
    ExpectFailure(options, told, ends,
                  {"mkdir", options.folder + "/step_00000002", "Read-only file system"});
    EXPECT_TRUE(CheckpointReader(options.folder).FindDamage().empty());
  }
}

TEST(CheckpointSaverTest, AFolderThatVanishedIsNotMadeAnew) {
  for (SaveOptions options : AllOptions("")) {
    const TestFolder folder;
    options.folder = folder.Path("save");
    MakeFolders(options.folder);
    Told told;
    const std::vector<std::string> ends = SaveAfter(
        options, told, [&] { std::filesystem::rename(options.folder, folder.Path("elsewhere")); });
    ExpectFailure(options, told, ends, {"mkdir", options.folder, "No such file or directory"});
    EXPECT_FALSE(PathExists(options.folder));
    EXPECT_TRUE(CheckpointReader(folder.Path("elsewhere")).FindDamage().empty());
  }
}

TEST(CheckpointSaverTest, ASlowDiskIsNamedAndWaitedFor) {
  for (const bool is_asynchronous : {false, true}) {
    const TestFolder folder;
    const SaveOptions options = {
        .folder = folder.Path("save"), .is_asynchronous = is_asynchronous, .patience_s = 8};
    MakeFolders(options.folder);
    Told told;
    HeldDisk disk("rank_00002");
    CheckpointSaver::Callbacks callbacks = told.Callbacks();
    callbacks.on_warning = [&](const std::string& text) {
      told.warnings.push_back(text);
      disk.Release();
    };
    OnSavers(options, callbacks, [](RankState& rank, CheckpointSaver& saver, int) {
      saver.Save(rank.state(), kInfo);
      saver.Wait();
      EXPECT_EQ(saver.last_saved_step(), 1);
    });
    EXPECT_THAT(told.warnings,
                ElementsAre(AllOf(HasSubstr("step_00000001: rank 2 still writes after"),
                                  HasSubstr("disk"))));
    EXPECT_TRUE(CheckpointReader(options.folder).FindDamage().empty());
  }
}

TEST(CheckpointSaverTest, ADiskThatHangsEndsTheRunAndSparesTheCheckpointBefore) {
  for (const bool is_asynchronous : {false, true}) {
    const TestFolder folder;
    const SaveOptions options = {.folder = folder.Path("save"),
                                 .is_asynchronous = is_asynchronous,
                                 .on_error = OnSaveError::kContinue,
                                 .patience_s = 1};
    MakeFolders(options.folder);
    Told told;
    std::optional<HeldDisk> disk;
    std::atomic<int> num_ended = 0;
    OnSavers(options, told.Callbacks(), [&](RankState& rank, CheckpointSaver& saver, int index) {
      saver.Save(rank.state(), kInfo);
      saver.Wait();
      if (index == 3) disk.emplace("rank_00003");
      rank.state().progress.step = 2;
      std::string message;
      try {
        saver.Save(rank.state(), kInfo);
        saver.Wait();
      } catch (const base::SystemError& error) {
        message = error.what();
      }
      EXPECT_THAT(message, HasSubstr("step_00000002: rank 3 still writes after"));
      if (++num_ended == 4) disk->Release();  // what rank 3 still writes keeps it
    });
    EXPECT_EQ(NewestCheckpoint(options.folder), folder.Path("save/step_00000001"));
    EXPECT_TRUE(CheckpointReader(options.folder).FindDamage().empty());
  }
}

TEST(CheckpointSaverTest, TheLastSaveOfARunMustSucceed) {
  const TestFolder folder;
  Told told;
  OnSavers({.folder = folder.Path("nowhere"), .on_error = OnSaveError::kContinue}, told.Callbacks(),
           [](RankState& rank, CheckpointSaver& saver, int) {
             saver.Save(rank.state(), kInfo);
             EXPECT_THROW(saver.SaveLast(rank.state(), kInfo), base::SystemError);
           });
  EXPECT_EQ(told.warnings.size(), 1U);
}

TEST(CheckpointSaverTest, AFailureIsOverWhenTheNextSaveBegins) {
  const TestFolder folder;
  Told told;
  OnSavers(
      {.folder = folder.Path("late"), .is_asynchronous = true, .on_error = OnSaveError::kContinue},
      told.Callbacks(), [&](RankState& rank, CheckpointSaver& saver, int) {
        saver.Save(rank.state(), kInfo);
        saver.Wait();
        MakeFolders(folder.Path("late"));
        saver.Save(rank.state(), kInfo);
        saver.Wait();
        EXPECT_EQ(saver.last_saved_step(), 1);
      });
  EXPECT_EQ(told.warnings.size(), 1U);
  EXPECT_TRUE(CheckpointReader(folder.Path("late")).FindDamage().empty());
}

TEST(CheckpointSaverTest, ChoicesAreReadByName) {
  EXPECT_EQ(OnSaveErrorFromString("stop"), OnSaveError::kStop);
  EXPECT_EQ(OnSaveErrorFromString("continue"), OnSaveError::kContinue);
  EXPECT_THAT(test::ConfigErrorOf([] { OnSaveErrorFromString("panic"); }),
              AllOf(HasSubstr("--on-save-error"), HasSubstr("panic")));
}

}  // namespace
}  // namespace tessera::engine
