// Damaged checkpoints and failing disks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>

#include "cost_model/base/error.h"
#include "engine/checkpoint/checkpoint.h"
#include "engine/checkpoint/checkpoint_reader.h"
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

std::string Save(const spec::ParallelSpec& parallel, const std::string& folder, int64_t step) {
  const spec::RankLayout layout(parallel);
  testing::RunRanks(layout.world_size(), [&](Communicator& world) {
    RankState rank(TinyLlama(), parallel, layout.CoordOf(world.rank()));
    rank.FillWithReference();
    rank.state().progress.step = step;
    SaveCheckpoint(rank.state(), {.model = TinyLlama()}, world, folder);
  });
  return folder + "/" + CheckpointFolderName(step);
}

std::string LoadError(const std::string& folder) {
  RankState rank(TinyLlama(), Layout(1, 1, 1), {});
  return ConfigErrorOf([&] { LoadCheckpoint(folder, TinyLlama(), rank.state()); });
}

void Overwrite(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary) << bytes;
}

TEST(CheckpointDamageTest, AFlippedBitOfTheDataIsNamedWithItsTensor) {
  const TestFolder folder;
  const std::string checkpoint = Save(Layout(1, 1, 2), folder.Path("save"), 1);
  const std::string path = checkpoint + "/rank_00001.safetensors";
  std::string bytes = ReadFile(path);
  bytes.back() ^= 1;
  Overwrite(path, bytes);
  EXPECT_THAT(LoadError(checkpoint), AllOf(HasSubstr("rank_00001.safetensors"),
                                           HasSubstr("tensor '"), HasSubstr("checksum")));
  CheckpointReader reader(checkpoint);
  EXPECT_EQ(reader.FindDamage().size(), 1u);
}

TEST(CheckpointDamageTest, EveryDamagedFileIsListed) {
  const TestFolder folder;
  const std::string checkpoint = Save(Layout(1, 2, 2), folder.Path("save"), 1);
  EXPECT_TRUE(CheckpointReader(checkpoint).FindDamage().empty());
  std::filesystem::remove(checkpoint + "/rank_00000.safetensors");
  Overwrite(checkpoint + "/rank_00002.safetensors",
            ReadFile(checkpoint + "/rank_00002.safetensors") + "x");
  const std::vector<std::string> damage = CheckpointReader(checkpoint).FindDamage();
  EXPECT_THAT(damage, ElementsAre(HasSubstr("rank_00000.safetensors"),
                                  HasSubstr("rank_00002.safetensors")));
}

TEST(CheckpointDamageTest, AChangedManifestOrModelIsNamed) {
  const TestFolder folder;
  const std::string checkpoint = Save(Layout(1, 1, 1), folder.Path("save"), 1);
  for (const char* const name : {"manifest.json", "model.json"}) {
    const std::string path = checkpoint + "/" + name;
    const std::string good = ReadFile(path);
    Overwrite(path, good + " ");
    EXPECT_THAT(LoadError(checkpoint), AllOf(HasSubstr(name), HasSubstr("COMPLETE")));
    Overwrite(path, good);
  }
  EXPECT_EQ(LoadError(checkpoint), "no error");
}

// Puts a manifest in place, checksums included, as a hostile or buggy writer would.
std::string ErrorOfManifest(const std::string& checkpoint, const Manifest& manifest) {
  const std::string text = WriteManifest(manifest);
  const std::string model = ReadFile(checkpoint + "/model.json");
  Overwrite(checkpoint + "/manifest.json", text);
  Overwrite(
      checkpoint + "/COMPLETE",
      base::Concat("manifest.json ", text.size(), " bytes crc32 ", Crc32Text(Crc32(text)),
                   "\nmodel.json ", model.size(), " bytes crc32 ", Crc32Text(Crc32(model)), "\n"));
  return LoadError(checkpoint);
}

TEST(CheckpointDamageTest, PiecesMustHoldEachElementOnce) {
  const TestFolder folder;
  const std::string checkpoint = Save(Layout(2, 1, 2), folder.Path("save"), 1);
  const Manifest good = CheckpointReader(checkpoint).manifest();
  EXPECT_EQ(ErrorOfManifest(checkpoint, good), "no error");

  for (size_t i = 0; i < good.pieces.size(); i += 7) {
    const std::string& parameter = good.pieces[i].parameter;
    Manifest bad = good;
    bad.pieces.erase(bad.pieces.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_THAT(ErrorOfManifest(checkpoint, bad), HasSubstr(parameter)) << "a piece lost";
    bad = good;
    bad.pieces.push_back(good.pieces[i]);
    EXPECT_THAT(ErrorOfManifest(checkpoint, bad), HasSubstr(parameter)) << "a piece twice";
    bad = good;
    bad.pieces[i].part.first += 1;
    EXPECT_THAT(ErrorOfManifest(checkpoint, bad), HasSubstr(parameter)) << "a piece moved";
    bad = good;
    bad.pieces[i].part.count = int64_t{1} << 62;
    EXPECT_THAT(ErrorOfManifest(checkpoint, bad), HasSubstr(parameter)) << "a piece too long";
    bad = good;
    bad.pieces[i].part.dim = 5;
    EXPECT_THAT(ErrorOfManifest(checkpoint, bad), HasSubstr(parameter)) << "no such dim";
    bad = good;
    bad.pieces[i].file = 99;
    EXPECT_THAT(ErrorOfManifest(checkpoint, bad), HasSubstr(parameter)) << "no such file";
  }
}

Manifest ManifestOfStep3() {
  Manifest manifest;
  manifest.progress = {.step = 3,
                       .num_skipped_steps = 2,
                       .consumed_samples = 24,
                       .loss_scale = {.value = 512, .num_good_steps = 1},
                       .recent = {.losses = {0.1, 1e-300}, .num_skipped_in_a_row = 1}};
  manifest.seed = 1;
  manifest.training = "t";
  return manifest;
}

// As version 1 wrote it.
constexpr char kManifestOfVersion1[] = R"({"format": "tessera-checkpoint", "format_version": 1,
  "step": 3, "consumed_samples": 24, "seed": 1, "training": "t", "files": [], "parameters": [],
  "pieces": []})";

// As version 2 wrote it.
constexpr char kManifestOfVersion2[] = R"({"format": "tessera-checkpoint", "format_version": 2,
  "step": 3, "num_skipped_steps": 2, "consumed_samples": 24, "loss_scale": 512.0,
  "loss_scale_good_steps": 1, "seed": 1, "training": "t", "files": [], "parameters": [],
  "pieces": []})";

TEST(CheckpointDamageTest, AManifestOfVersion2HasNoRecentLosses) {
  Manifest expected = ManifestOfStep3();
  expected.progress.recent = {};
  EXPECT_EQ(ParseManifest(kManifestOfVersion2, "m"), expected);
}

TEST(CheckpointDamageTest, AManifestOfVersion1HasNoSkippedStepsAndNoLossScale) {
  Manifest expected = ManifestOfStep3();
  expected.progress.recent = {};
  expected.progress.num_skipped_steps = 0;
  expected.progress.loss_scale = {};
  EXPECT_EQ(ParseManifest(kManifestOfVersion1, "m"), expected);
  std::string with_later_key = kManifestOfVersion1;
  with_later_key.insert(1, "\"loss_scale\": 2, ");
  EXPECT_THAT(ConfigErrorOf([&] { ParseManifest(with_later_key, "m"); }),
              AllOf(HasSubstr("/loss_scale"), HasSubstr("unknown key")));
}

TEST(CheckpointDamageTest, ManifestsOfOtherKindsAreRefusedByKey) {
  const TestFolder folder;
  const std::string path = folder.Path("manifest.json");
  const std::string good = WriteManifest(ManifestOfStep3());
  EXPECT_EQ(ParseManifest(good, path), ManifestOfStep3());
  const auto error_with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    text.replace(text.find(from), from.size(), to);
    return ConfigErrorOf([&] { ParseManifest(text, path); });
  };
  EXPECT_THAT(error_with("\"format_version\": 3", "\"format_version\": 4"),
              AllOf(HasSubstr(path), HasSubstr("/format_version"), HasSubstr("found 4")));
  EXPECT_THAT(error_with("0.1,", "\"x\","), HasSubstr("/recent_losses"));
  EXPECT_THAT(error_with("\"skipped_in_a_row\": 1", "\"skipped_in_a_row\": -1"),
              HasSubstr("/skipped_in_a_row"));
  EXPECT_THAT(error_with("tessera-checkpoint", "other"), HasSubstr("/format"));
  EXPECT_THAT(error_with("\"step\": 3", "\"step\": -3"), HasSubstr("/step"));
  EXPECT_THAT(error_with("\"step\": 3", "\"step\": 3, \"stop\": 4"), HasSubstr("/stop"));
  EXPECT_THAT(error_with("\"step\": 3", "\"step\": 9223372036854775807"), HasSubstr("/step"));
  EXPECT_THAT(error_with("\"seed\": 1,", ""), HasSubstr("/seed"));
  EXPECT_THAT(error_with("\"num_skipped_steps\": 2", "\"num_skipped_steps\": 4"),
              AllOf(HasSubstr("/num_skipped_steps"), HasSubstr("found 4")));
  EXPECT_THAT(error_with("\"loss_scale\": 512.0", "\"loss_scale\": 0.5"), HasSubstr("/loss_scale"));
  EXPECT_THAT(error_with("\"loss_scale\": 512.0,", ""), HasSubstr("/loss_scale"));
  EXPECT_THAT(error_with("\"loss_scale_good_steps\": 1", "\"loss_scale_good_steps\": -1"),
              HasSubstr("/loss_scale_good_steps"));
  EXPECT_THAT(error_with("\"files\": []", "\"files\": [7]"), HasSubstr("/files/0"));
  for (const char* const name : {"", ".", "..", "../x", "/etc/passwd", "a\\u0000b"}) {
    const std::string file =
        base::Concat("\"files\": [{\"name\": \"", name,
                     "\", \"size_bytes\": 1, \"header_crc32\": \"00000000\"}]");
    EXPECT_THAT(error_with("\"files\": []", file), HasSubstr("/files/0/name")) << name;
  }
  EXPECT_THAT(error_with("{", "["), HasSubstr("broken JSON"));
}

// Makes writes beyond a size fail with EFBIG, as a full disk would with ENOSPC, while it lives.
class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t bytes) {
    old_handler_ = std::signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old_);
    const rlimit limit = {.rlim_cur = bytes, .rlim_max = old_.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    setrlimit(RLIMIT_FSIZE, &old_);
    std::signal(SIGXFSZ, old_handler_);
  }

 private:
  rlimit old_ = {};
  void (*old_handler_)(int) = nullptr;
};

TEST(CheckpointDamageTest, AFullDiskFailsTheSaveAndSparesTheOneBefore) {
  const TestFolder folder;
  const std::string save = folder.Path("save");
  const std::string before = Save(Layout(2, 1, 1), save, 1);
  for (const rlim_t limit : {100, 10'000, 30'000}) {
    std::string message;
    {
      const FileSizeLimit full(limit);
      try {
        Save(Layout(2, 1, 1), save, 2);
      } catch (const base::SystemError& error) {
        message = error.what();
      }
    }
    EXPECT_THAT(message, AllOf(HasSubstr("write"), HasSubstr("step_00000002"))) << limit;
    EXPECT_THAT(ListFolder(save), ElementsAre("step_00000001")) << limit;
  }
  EXPECT_EQ(NewestCheckpoint(save), before);
  EXPECT_EQ(LoadError(save), "no error");
}

TEST(CheckpointDamageTest, AllRanksLearnOfTheDiskFailureOfOne) {
  const TestFolder folder;
  const std::string blocked = folder.Write("a_file", "") + "/save";
  const spec::ParallelSpec parallel = Layout(1, 1, 3);
  const spec::RankLayout layout(parallel);
  std::vector<std::string> messages(3);
  testing::RunRanks(3, [&](Communicator& world) {
    RankState rank(TinyLlama(), parallel, layout.CoordOf(world.rank()));
    rank.FillWithReference();
    try {
      SaveCheckpoint(rank.state(), {.model = TinyLlama()}, world, blocked);
    } catch (const base::SystemError& error) {
      messages[world.rank()] = error.what();
    }
    world.Barrier();  // the communicator still works
  });
  EXPECT_THAT(messages[0], AllOf(HasSubstr("mkdir"), HasSubstr(blocked)));
  EXPECT_THAT(messages[1], AllOf(HasSubstr("rank 0"), HasSubstr("mkdir"), HasSubstr(blocked)));
  EXPECT_EQ(messages[1], messages[2]);
}

TEST(Crc32Test, GivesThePublishedCheckValue) {
  // The "check" value of CRC-32/ISO-HDLC.
  EXPECT_EQ(Crc32("123456789"), 0xCBF43926u);
  EXPECT_EQ(Crc32(""), 0u);
  EXPECT_EQ(Crc32Text(0xCBF43926u), "cbf43926");
}

TEST(Crc32Test, GoesOnFromWhereItStopped) {
  const std::string text = "The quick brown fox jumps over the lazy dog";
  const auto bytes = std::as_bytes(std::span(text.data(), text.size()));
  EXPECT_EQ(Crc32(text), 0x414FA339u);  // widely published for this sentence
  for (size_t cut = 0; cut <= text.size(); ++cut) {
    EXPECT_EQ(Crc32(bytes.subspan(cut), Crc32(bytes.first(cut))), 0x414FA339u) << cut;
  }
}

}  // namespace
}  // namespace tessera::engine
