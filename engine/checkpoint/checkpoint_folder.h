// The folders of native checkpoints: <save folder>/step_00000010/ with manifest.json, model.json,
// one data file a writing rank, and COMPLETE, whose arrival makes the checkpoint count.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cost_model/spec/model_spec.h"
#include "engine/checkpoint/manifest.h"

namespace tessera::engine {

inline constexpr const char* kManifestFileName = "manifest.json";
inline constexpr const char* kModelFileName = "model.json";
inline constexpr const char* kCompleteFileName = "COMPLETE";

std::string CheckpointFolderName(int64_t step);  // "step_00000010"

// Paths of the folders in a save folder that are named as checkpoints, highest step first, complete
// or not. One that was being replaced when the process died follows its replacement.
std::vector<std::string> CheckpointsNewestFirst(const std::string& save_folder);

bool HasCompleteMark(const std::string& checkpoint_folder);

// Path of the complete checkpoint of the highest step in a save folder; "" when there is none.
// Interrupted saves do not count. A checkpoint's own folder is itself the newest.
std::string NewestCheckpoint(const std::string& save_folder);

// A checkpoint's own folder as it is; a save folder as its newest checkpoint. Throws
// base::ConfigError when it is neither.
std::string FindCheckpoint(const std::string& folder);

// Throws base::ConfigError unless COMPLETE is there and agrees with manifest.json and model.json.
void RequireComplete(const std::string& checkpoint_folder);

// Removes a checkpoint: at no moment is a part of it left under its name. Throws base::SystemError.
void RemoveCheckpoint(const std::string& checkpoint_folder);

// Keeps the checkpoint of `newest_step` and before it the newest complete ones up to `keep_last` in
// all; removes the other checkpoints before it, incomplete and `damaged` ones included, which do
// not count. Later steps stay. Throws base::SystemError. REQUIRES: keep_last > 0.
void RemoveOldCheckpoints(const std::string& save_folder, int64_t newest_step, int64_t keep_last,
                          const std::vector<std::string>& damaged);

// A checkpoint in the making, under a temporary name beside its final one.
class CheckpointStaging {
 public:
  // `suffix` is TemporarySuffix() of the process that starts the staging.
  CheckpointStaging(const std::string& save_folder, int64_t step, const std::string& suffix);

  const std::string& folder() const { return temporary_; }
  const std::string& final_folder() const { return final_; }

  // Each of the following by one rank alone. Failures are base::SystemError.
  // Removes what interrupted saves and removals have left, and makes the folder. The save folder
  // must be there: one that vanished, with a disk or by mistake, is not made anew behind the user's
  // back.
  void Begin() const;
  // Writes manifest and model, syncs, gives the folder its name, replacing an older checkpoint of
  // this step, which goes once the new one is marked complete.
  void Commit(const Manifest& manifest, const spec::ModelSpec& model) const;
  // Removes the temporary folder, as far as that can be done.
  void Abandon() const noexcept;

 private:
  std::string save_folder_;
  std::string final_;
  std::string temporary_;
};

}  // namespace tessera::engine
