#include "engine/checkpoint/checkpoint_folder.h"

#include <algorithm>
#include <charconv>
#include <filesystem>
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

std::vector<std::string> CheckpointsNewestFirst(const std::string& save_folder) {
  std::vector<std::string> names = ListFolder(save_folder);
  std::erase_if(names, [](const std::string& name) { return StepOf(name) < 0; });
  // In the alphabet a replaced checkpoint follows its replacement; that order stays.
  std::stable_sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
    return StepOf(a) > StepOf(b);
  });
  for (std::string& name : names) name = save_folder + "/" + name;
  return names;
}

bool HasCompleteMark(const std::string& checkpoint_folder) {
  return PathExists(checkpoint_folder + "/" + kCompleteFileName);
}

std::string NewestCheckpoint(const std::string& save_folder) {
  if (HasCompleteMark(save_folder)) return save_folder;
  const std::vector<std::string> all = CheckpointsNewestFirst(save_folder);
  const auto newest = std::find_if(all.begin(), all.end(), HasCompleteMark);
  return newest == all.end() ? "" : *newest;
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
  if (!HasCompleteMark(checkpoint_folder)) {
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

void RemoveCheckpoint(const std::string& checkpoint_folder) {
  if (!PathExists(checkpoint_folder)) return;
  const std::string temporary = checkpoint_folder + TemporarySuffix();
  RenamePath(checkpoint_folder, temporary);
  RemoveTree(temporary);
}

void RemoveOldCheckpoints(const std::string& save_folder, int64_t newest_step, int64_t keep_last,
                          const std::vector<std::string>& damaged) {
  const auto is_damaged = [&](const std::string& folder) {
    return std::any_of(damaged.begin(), damaged.end(), [&](const std::string& each) {
      std::error_code ignored;  // of one that is gone
      return std::filesystem::equivalent(each, folder, ignored);
    });
  };
  int64_t num_kept = 1;
  int64_t last_kept_step = newest_step;
  for (const std::string& folder : CheckpointsNewestFirst(save_folder)) {
    const int64_t step = StepOf(std::filesystem::path(folder).filename().string());
    if (step >= newest_step) continue;
    if (num_kept < keep_last && step != last_kept_step && HasCompleteMark(folder) &&
        !is_damaged(folder)) {
      ++num_kept;
      last_kept_step = step;
    } else {
      RemoveCheckpoint(folder);
    }
  }
}

CheckpointStaging::CheckpointStaging(const std::string& save_folder, int64_t step,
                                     const std::string& suffix)
    : save_folder_(save_folder),
      final_(save_folder + "/" + CheckpointFolderName(step)),
      temporary_(final_ + suffix) {}

void CheckpointStaging::Begin() const {
  for (const std::string& name : ListFolder(save_folder_)) {
    const bool is_left_over =
        name.starts_with(kStepPrefix) && name.find(kTemporaryMark) != std::string::npos;
    if (is_left_over) RemoveTree(save_folder_ + "/" + name);
  }
  MakeFolder(temporary_);
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
  // One complete checkpoint of this step, where there was one, stands until the new one is.
  const std::string replaced = Concat(final_, kReplacedSuffix);
  if (HasCompleteMark(replaced)) {
    RemoveCheckpoint(final_);
  } else if (PathExists(final_)) {
    RemoveCheckpoint(replaced);
    RenamePath(final_, replaced);
  }
  RenamePath(temporary_, final_);
  SyncFolder(save_folder_);
  RenamePath(final_ + pending, final_ + "/" + kCompleteFileName);
  SyncFolder(final_);
  RemoveCheckpoint(replaced);
}

void CheckpointStaging::Abandon() const noexcept { TryRemoveTree(temporary_); }

}  // namespace tessera::engine
