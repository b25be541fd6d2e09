#include "engine/checkpoint/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <random>
#include <set>

#include "cost_model/base/error.h"
#include "engine/checkpoint/checkpoint_reader.h"
#include "engine/checkpoint/file_io.h"
#include "tests/engine/checkpoint_test_state.h"
#include "tests/engine/data_test_files.h"
#include "tests/testing/run_ranks.h"

namespace tessera::engine {
namespace {

using test::ConfigErrorOf;
using test::Layout;
using test::LayoutText;
using test::RankState;
using test::TestFolder;
using test::TinyGpt2;
using test::TinyLlama;
using test::TinyMixture;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int64_t kStep = 10;

TrainProgress ProgressAt(int64_t step) {
  return {.step = step,
          .num_skipped_steps = step / 3,
          .consumed_samples = step * 8,
          .loss_scale = {.value = 4096, .num_good_steps = step}};
}

// Saves the reference values under a layout; padding is NaN, which must not reach the disk.
void SaveReference(const spec::ModelSpec& model, const spec::ParallelSpec& parallel,
                   const std::string& folder, int64_t step = kStep) {
  const spec::RankLayout layout(parallel);
  testing::RunRanks(layout.world_size(), [&](Communicator& world) {
    RankState rank(model, parallel, layout.CoordOf(world.rank()));
    rank.FillWithReference();
    rank.state().progress = ProgressAt(step);
    const CheckpointInfo info = {.model = model, .seed = 77, .training = "a test"};
    const std::string path = SaveCheckpoint(rank.state(), info, world, folder);
    EXPECT_EQ(path, folder + "/" + CheckpointFolderName(step));
  });
}

// Wrong elements over all ranks of a layout after loading.
int64_t NumWrongAfterLoading(const spec::ModelSpec& model, const spec::ParallelSpec& parallel,
                             const std::string& folder) {
  const spec::RankLayout layout(parallel);
  int64_t num_wrong = 0;
  for (int r = 0; r < layout.world_size(); ++r) {
    RankState rank(model, parallel, layout.CoordOf(r));
    const CheckpointInfo info = LoadCheckpoint(folder, model, rank.state());
    EXPECT_TRUE(info.has_optimizer_state);
    EXPECT_EQ(rank.state().progress, ProgressAt(kStep));
    num_wrong += rank.NumWrong();
  }
  return num_wrong;
}

void ExpectAllLayoutsReadEachOther(const spec::ModelSpec& model,
                                   const std::vector<spec::ParallelSpec>& layouts) {
  for (const spec::ParallelSpec& saved : layouts) {
    const TestFolder folder;
    SaveReference(model, saved, folder.Path("save"));
    for (const spec::ParallelSpec& loaded : layouts) {
      EXPECT_EQ(NumWrongAfterLoading(model, loaded, folder.Path("save")), 0)
          << model.name << " of " << model.num_key_value_heads << " kv heads: " << LayoutText(saved)
          << " to " << LayoutText(loaded);
    }
  }
}

std::vector<spec::ParallelSpec> RandomLayouts(int count, uint32_t seed) {
  std::mt19937 random(seed);
  const auto one_of = [&](std::initializer_list<int> values) {
    return *(values.begin() + random() % values.size());
  };
  std::vector<spec::ParallelSpec> layouts;
  while (static_cast<int>(layouts.size()) < count) {
    const int pipeline = one_of({1, 2, 4});
    const int virtual_pipeline = pipeline == 2 ? one_of({1, 2}) : 1;
    layouts.push_back(
        Layout(one_of({1, 2, 4}), pipeline, one_of({1, 2, 3}), virtual_pipeline, one_of({0, 1})));
    if (spec::WorldSize(layouts.back()) > 16) layouts.pop_back();
  }
  return layouts;
}

TEST(CheckpointTest, EveryLayoutReadsWhatAnyLayoutOfGpt2Saved) {
  std::vector<spec::ParallelSpec> layouts = {Layout(1, 1, 1), Layout(4, 1, 1), Layout(2, 2, 2, 2),
                                             Layout(2, 1, 2, 1, 3)};
  for (const spec::ParallelSpec& each : RandomLayouts(5, 1)) layouts.push_back(each);
  ExpectAllLayoutsReadEachOther(TinyGpt2(), layouts);
}

TEST(CheckpointTest, EveryLayoutReadsWhatAnyLayoutOfLlamaSaved) {
  for (const int num_key_value_heads : {1, 2, 4}) {
    std::vector<spec::ParallelSpec> layouts = {Layout(4, 1, 2), Layout(1, 1, 1, 1, 0)};
    for (const spec::ParallelSpec& each : RandomLayouts(4, 10 + num_key_value_heads)) {
      layouts.push_back(each);
    }
    ExpectAllLayoutsReadEachOther(TinyLlama(num_key_value_heads), layouts);
  }
}

TEST(CheckpointTest, EveryLayoutReadsTheExpertsThatAnyLayoutSaved) {
  const auto with_experts = [](spec::ParallelSpec layout, int expert, int expert_tensor) {
    layout.expert_parallel_size = expert;
    layout.expert_tensor_parallel_size = expert_tensor;
    return layout;
  };
  // Expert data ranks: 1; 4 of which two pipelines' worth; 1; 2; and experts over all of tp and dp.
  ExpectAllLayoutsReadEachOther(
      TinyMixture(),
      {Layout(1, 1, 1), with_experts(Layout(1, 1, 4), 2, 0), with_experts(Layout(2, 1, 2), 2, 0),
       with_experts(Layout(2, 1, 2, 1, 0), 2, 1), with_experts(Layout(2, 3, 2, 1, 3), 4, 1),
       with_experts(Layout(2, 1, 2, 1, 0), 1, 2)});
}

TEST(CheckpointTest, TiedEmbeddingsAreStoredOnceAndReachBothHolders) {
  const spec::ModelSpec model = TinyLlama(2, /*tied=*/true);
  const TestFolder folder;
  SaveReference(model, Layout(2, 2, 1), folder.Path("save"));
  const CheckpointReader reader(folder.Path("save"));
  int64_t elements = 0;
  for (const Piece& piece : reader.manifest().pieces) {
    const bool counts = piece.parameter == "embedding.word.weight" && piece.kind == StateKind::kM;
    elements += counts ? piece.part.count : 0;
  }
  EXPECT_EQ(elements, model.vocab_size * model.hidden_size);
  EXPECT_EQ(NumWrongAfterLoading(model, Layout(1, 4, 1), folder.Path("save")), 0);
}

TEST(CheckpointTest, ARankWritesItsOwnRangesAlone) {
  const spec::ModelSpec model = TinyLlama();
  const TestFolder folder;
  SaveReference(model, Layout(1, 1, 4), folder.Path("save"));
  const CheckpointReader reader(folder.Path("save"));
  EXPECT_EQ(reader.manifest().files.size(), 4u);
  // A quarter of the weights and both moments, and some header, on each rank.
  const int64_t bytes = spec::NumParameters(model) * 3 * 4;
  for (const CheckpointFile& file : reader.manifest().files) {
    EXPECT_LT(file.size_bytes, bytes / 4 + 16'000) << file.name;
  }
}

TEST(CheckpointTest, WeightsAloneLoadWithZeroMoments) {
  const spec::ModelSpec model = TinyGpt2();
  const TestFolder folder;
  testing::RunRanks(1, [&](Communicator& world) {
    RankState rank(model, Layout(1, 1, 1), {});
    rank.FillWithReference();
    rank.state().m = rank.state().v = nullptr;
    SaveCheckpoint(rank.state(), {.model = model}, world, folder.Path("save"));
  });
  RankState rank(model, Layout(2, 1, 1), {.tensor = 1});
  EXPECT_FALSE(LoadCheckpoint(folder.Path("save"), model, rank.state()).has_optimizer_state);
  EXPECT_EQ(rank.NumWrong(/*expect_moments=*/false), 0);
}

TEST(CheckpointTest, AStateWithoutMomentsTakesTheWeightsOfAFullCheckpoint) {
  const spec::ModelSpec model = TinyGpt2();
  const TestFolder folder;
  SaveReference(model, Layout(1, 2, 1), folder.Path("save"));
  RankState rank(model, Layout(1, 1, 1), {});
  rank.Fill(0);
  rank.state().m = rank.state().v = nullptr;
  LoadCheckpoint(folder.Path("save"), model, rank.state());
  EXPECT_EQ(rank.NumWrong(/*expect_moments=*/false), 0);
}

TEST(CheckpointTest, TheInfoComesBack) {
  const spec::ModelSpec model = TinyLlama();
  const TestFolder folder;
  SaveReference(model, Layout(1, 1, 1), folder.Path("save"));
  RankState rank(model, Layout(1, 1, 1), {});
  const CheckpointInfo info = LoadCheckpoint(folder.Path("save"), model, rank.state());
  EXPECT_EQ(info.model, model);
  EXPECT_EQ(info.seed, 77u);
  EXPECT_EQ(info.training, "a test");
  EXPECT_EQ(info.progress, ProgressAt(kStep));
}

TEST(CheckpointTest, AnInterruptedSaveIsNotTheNewest) {
  const spec::ModelSpec model = TinyLlama();
  const TestFolder folder;
  const std::string save = folder.Path("save");
  EXPECT_EQ(NewestCheckpoint(save), "");
  SaveReference(model, Layout(1, 1, 1), save, 10);
  SaveReference(model, Layout(1, 1, 1), save, 9);
  SaveReference(model, Layout(1, 1, 1), save, 100'000'000);
  const std::string newest = save + "/step_100000000";
  EXPECT_EQ(NewestCheckpoint(save), newest);
  EXPECT_EQ(NewestCheckpoint(newest), newest);
  std::filesystem::remove(newest + "/COMPLETE");
  std::filesystem::create_directories(save + "/step_200000000.tmp-1-2");
  EXPECT_EQ(NewestCheckpoint(save), save + "/step_00000010");
  EXPECT_THAT(ConfigErrorOf([&] { CheckpointReader reader(newest); }),
              AllOf(HasSubstr("step_100000000"), HasSubstr("no COMPLETE")));
}

TEST(CheckpointTest, SavingAStepAgainReplacesItAndWhatAnInterruptionLeft) {
  const spec::ModelSpec model = TinyLlama();
  const TestFolder folder;
  const std::string save = folder.Path("save");
  std::filesystem::create_directories(save + "/step_00000010.tmp-1-2");
  SaveReference(model, Layout(4, 1, 1), save);
  SaveReference(model, Layout(1, 1, 1), save);
  EXPECT_THAT(ListFolder(save), ::testing::ElementsAre("step_00000010"));
  EXPECT_THAT(
      ListFolder(save + "/step_00000010"),
      ::testing::ElementsAre("COMPLETE", "manifest.json", "model.json", "rank_00000.safetensors"));
}

TEST(CheckpointTest, AnotherModelIsRefusedByTheKeyThatDiffers) {
  const TestFolder folder;
  SaveReference(TinyLlama(), Layout(1, 1, 1), folder.Path("save"));
  spec::ModelSpec other = TinyLlama();
  other.name = "a name does not matter";
  RankState same(other, Layout(1, 1, 1), {});
  LoadCheckpoint(folder.Path("save"), other, same.state());
  other.rope_theta = 500000;
  RankState rank(other, Layout(1, 1, 1), {});
  EXPECT_THAT(ConfigErrorOf([&] { LoadCheckpoint(folder.Path("save"), other, rank.state()); }),
              AllOf(HasSubstr("model.json"), HasSubstr("rope_theta"), HasSubstr("10000"),
                    HasSubstr("500000")));
}

TEST(CheckpointTest, AFolderWithoutACheckpointIsNamed) {
  const TestFolder folder;
  EXPECT_THAT(ConfigErrorOf([&] { CheckpointReader reader(folder.Path("nowhere")); }),
              AllOf(HasSubstr("nowhere"), HasSubstr("no such folder")));
  EXPECT_THAT(ConfigErrorOf([&] { CheckpointReader reader(folder.Path("")); }),
              HasSubstr("no complete checkpoint"));
}

}  // namespace
}  // namespace tessera::engine
