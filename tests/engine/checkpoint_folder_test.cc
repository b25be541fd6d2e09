// What a save folder holds after saves, interruptions and removals.
#include "engine/checkpoint/checkpoint_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "cost_model/base/error.h"
#include "engine/checkpoint/file_io.h"
#include "engine/checkpoint/weights_checkpoint.h"
#include "tests/engine/checkpoint_test_state.h"
#include "tests/engine/data_test_files.h"

namespace tessera::engine {
namespace {

using test::TestFolder;
using test::TinyLlama;
using ::testing::ElementsAre;

// Folders named as checkpoints, with nothing but the mark: the functions look at no more.
class SaveFolder {
 public:
  std::string path() const { return folder_.Path("save"); }
  std::string Add(const std::string& name, bool is_complete = true) const {
    std::filesystem::create_directories(path() + "/" + name);
    if (is_complete) folder_.Write("save/" + name + "/" + kCompleteFileName, "");
    return path() + "/" + name;
  }
  std::vector<std::string> Names() const { return ListFolder(path()); }

 private:
  TestFolder folder_;
};

TEST(CheckpointFolderTest, TheLastOnesAreKept) {
  const SaveFolder folder;
  for (const int step : {2, 4, 6, 8}) folder.Add(CheckpointFolderName(step));
  RemoveOldCheckpoints(folder.path(), 8, 3, {});
  EXPECT_THAT(folder.Names(), ElementsAre("step_00000004", "step_00000006", "step_00000008"));
  RemoveOldCheckpoints(folder.path(), 8, 1, {});
  EXPECT_THAT(folder.Names(), ElementsAre("step_00000008"));
}

TEST(CheckpointFolderTest, LaterStepsOfAnotherRunAreNotTouched) {
  const SaveFolder folder;
  for (const int step : {2, 4, 6, 8}) folder.Add(CheckpointFolderName(step));
  RemoveOldCheckpoints(folder.path(), 4, 1, {});
  EXPECT_THAT(folder.Names(), ElementsAre("step_00000004", "step_00000006", "step_00000008"));
}

TEST(CheckpointFolderTest, WhatIsTornOrDamagedDoesNotCountAsKept) {
  const SaveFolder folder;
  folder.Add("step_00000002");
  folder.Add("step_00000004");
  folder.Add("step_00000004.replaced");
  folder.Add("step_00000006", /*is_complete=*/false);
  const std::string damaged = folder.Add("step_00000008");
  folder.Add("step_00000010");
  RemoveOldCheckpoints(folder.path(), 10, 2, {damaged + "/.", folder.path() + "/gone"});
  EXPECT_THAT(folder.Names(), ElementsAre("step_00000004", "step_00000010"));
}

TEST(CheckpointFolderTest, OtherFilesStay) {
  const SaveFolder folder;
  folder.Add("step_00000002");
  folder.Add("step_00000002-mine");
  folder.Add("best");
  folder.Add("step_00000004");
  RemoveOldCheckpoints(folder.path(), 4, 1, {});
  EXPECT_THAT(folder.Names(), ElementsAre("best", "step_00000002-mine", "step_00000004"));
}

TEST(CheckpointFolderTest, ASaveRemovesWhatInterruptedSavesAndRemovalsOfAnyStepLeft) {
  const SaveFolder folder;
  folder.Add("step_00000002");
  folder.Add("step_00000004.tmp-12-34");
  folder.Add("step_00000001.replaced.tmp-12-34");
  folder.Add("mine.tmp-1");
  CheckpointStaging(folder.path(), 6, ".tmp-1-2").Begin();
  EXPECT_THAT(folder.Names(), ElementsAre("mine.tmp-1", "step_00000002", "step_00000006.tmp-1-2"));
}

TEST(CheckpointFolderTest, ASaveMakesNoSaveFolder) {
  const SaveFolder folder;
  const std::string gone = folder.path() + "/gone";
  EXPECT_THROW(CheckpointStaging(gone, 6, ".tmp-1-2").Begin(), base::SystemError);
  EXPECT_THAT(folder.Names(), ElementsAre());
}

std::string SaveWeights(const std::string& folder) {
  return WriteWeightsCheckpoint(folder, TinyLlama(), "",
                                [](const CheckpointParameter&, std::span<float>) {});
}

// A run that died between taking the old checkpoint's name away and marking the new one complete
// left the old one as `.replaced`: it stands until the step is saved again.
TEST(CheckpointFolderTest, SavingAStepAgainAfterAnInterruptionKeepsTheStandInUntilItIsDone) {
  const SaveFolder folder;
  const std::string checkpoint = SaveWeights(folder.path());
  for (const bool has_torn_replacement : {false, true}) {
    std::filesystem::rename(checkpoint, checkpoint + ".replaced");
    if (has_torn_replacement) folder.Add("step_00000000", /*is_complete=*/false);
    const CheckpointStaging staging(folder.path(), 0, ".tmp-1-2");
    staging.Begin();
    // A commit that fails at its last step, the disk having lost what the mark is made of.
    std::filesystem::create_directories(staging.folder() + "/COMPLETE/in the way");
    EXPECT_THROW(staging.Commit({}, TinyLlama()), base::SystemError);
    EXPECT_TRUE(HasCompleteMark(checkpoint + ".replaced")) << has_torn_replacement;
    EXPECT_EQ(SaveWeights(folder.path()), checkpoint);
    EXPECT_THAT(folder.Names(), ElementsAre("step_00000000"));
  }
}

}  // namespace
}  // namespace tessera::engine
