#include "engine/checkpoint/checkpoint_folder.h"

#include <charconv>
#include <iomanip>
#include <sstream>

#include "cost_model/base/error.h"
#include "cost_model/spec/spec_json.h"
#include "engine/checkpoint/crc32.h"
#include "engine/checkpoint/file_io.h"

namespace tessera::engine {
namespace {

using base::Concat;
using base::ConfigError;

constexpr std::string_view kStepPrefix = "step_";
constexpr size_t kStepDigits = 8;
constexpr std::string_view kReplacedSuffix = ".replaced";

// Step of a checkpoint folder's name; -1 for any other name. A checkpoint that was being replaced
// when the process died counts.
int64_t StepOf(std::string_view name) {
  if (!name.starts_with(kStepPrefix)) return -1;
  if (name.ends_with(kReplacedSuffix)) name.remove_suffix(kReplacedSuffix.size());
  const std::string_view digits = name.substr(kStepPrefix.size());
  int64_t step = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  const bool all_read = error == std::errc() && end == digits.data() + digits.size();
  return all_read && digits.size() >= kStepDigits && step >= 0 ? step : -1;
}

// What COMPLETE says of a file: its name, size and checksum.
std::string CompleteLine(const std::string& folder, const char* name) {
  const std::string text = ReadWholeFile(folder + "/" + name);
  return Concat(name, " ", text.size(), " bytes crc32 ", Crc32Text(Crc32(text)));
}

}  // namespace

std::string CheckpointFolderName(int64_t step) {
  std::ostringstream name;
  name << kStepPrefix << std::setfill('0') << std::setw(kStepDigits) << step;
  return name.str();
}

std::string NewestCheckpoint(const std::string& save_folder) {
  if (PathExists(save_folder + "/" + kCompleteFileName)) return save_folder;
  int64_t newest_step = -1;
  std::string newest;
  for (const std::string& name : ListFolder(save_folder)) {
    const std::string path = save_folder + "/" + name;
    const int64_t step = StepOf(name);
    if (step > newest_step && PathExists(path + "/" + kCompleteFileName)) {
      newest_step = step;
      newest = path;
    }
  }
  return newest;
}

std::string FindCheckpoint(const std::string& folder) {
  if (PathExists(folder + "/" + kManifestFileName)) return folder;
  const std::string newest = NewestCheckpoint(folder);
  if (newest.empty()) {
    throw ConfigError(folder, "", PathExists(folder) ? "no complete checkpoint" : "no such folder",
                      Concat("a checkpoint's folder, or one that holds ", CheckpointFolderName(10),
                             "/ and the like"));
  }
  return newest;
}

void RequireComplete(const std::string& checkpoint_folder) {
  const std::string path = checkpoint_folder + "/" + kCompleteFileName;
  if (!PathExists(path)) {
    throw ConfigError(checkpoint_folder, "", Concat("no ", kCompleteFileName),
                      "a checkpoint whose save was not interrupted");
  }
  std::istringstream complete(ReadWholeFile(path));
  for (const char* const name : {kManifestFileName, kModelFileName}) {
    std::string expected;
    std::getline(complete, expected);
    const std::string found = CompleteLine(checkpoint_folder, name);
    if (found != expected) {
      throw ConfigError(checkpoint_folder + "/" + name, "", found,
                        Concat("'", expected, "', as ", kCompleteFileName, " says"));
    }
  }
}

CheckpointStaging::CheckpointStaging(const std::string& save_folder, int64_t step,
                                     const std::string& suffix)
    : save_folder_(save_folder),
      final_(save_folder + "/" + CheckpointFolderName(step)),
      temporary_(final_ + suffix) {}

void CheckpointStaging::Begin() const {
  MakeFolders(save_folder_);
  const std::string stale_prefix =
      final_.substr(save_folder_.size() + 1) + ".tmp-";  // as TemporarySuffix makes them
  for (const std::string& name : ListFolder(save_folder_)) {
    if (name.starts_with(stale_prefix)) RemoveTree(save_folder_ + "/" + name);
  }
  MakeFolders(temporary_);
}

void CheckpointStaging::Commit(const Manifest& manifest, const spec::ModelSpec& model) const {
  WriteWholeFile(temporary_ + "/" + kManifestFileName, WriteManifest(manifest));
  WriteWholeFile(temporary_ + "/" + kModelFileName, spec::WriteModel(model));
  // On the disk already under another name: what makes the checkpoint count at the end is a rename,
  // which a full disk does not fail.
  const std::string pending = Concat("/", kCompleteFileName, ".pending");
  WriteWholeFile(temporary_ + pending, CompleteLine(temporary_, kManifestFileName) + "\n" +
                                           CompleteLine(temporary_, kModelFileName) + "\n");
  SyncFolder(temporary_);
  const std::string replaced = Concat(final_, kReplacedSuffix);
  RemoveTree(replaced);
  if (PathExists(final_)) RenamePath(final_, replaced);
  RenamePath(temporary_, final_);
  SyncFolder(save_folder_);
  RenamePath(final_ + pending, final_ + "/" + kCompleteFileName);
  SyncFolder(final_);
  RemoveTree(replaced);
}

void CheckpointStaging::Abandon() const noexcept { TryRemoveTree(temporary_); }

}  // namespace tessera::engine
