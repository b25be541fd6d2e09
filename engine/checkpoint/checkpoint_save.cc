#include "engine/checkpoint/checkpoint_save.h"

#include <utility>

#include "cost_model/base/error.h"
#include "engine/checkpoint/file_io.h"
#include "engine/checkpoint/piece_file.h"

namespace tessera::engine {
namespace {

// A file or folder that is missing here was there before: the disk's failure, not wrong input.
template <typename Work>
void RunOnDisk(const Work& work) {
  try {
    work();
  } catch (const base::ConfigError& error) {
    throw base::SystemError(error.what());
  }
}

}  // namespace

CheckpointSave::CheckpointSave(const TrainState& state, const CheckpointInfo& info,
                               const Place& place)
    : place_(place),
      staging_(place.save_folder, state.progress.step, place.suffix),
      model_(info.model),
      head_{.progress = state.progress,
            .seed = info.seed,
            .training = info.training,
            .files = {},
            .parameters = CheckpointParameters(info.model),
            .pieces = {}},
      pieces_(state) {}

void CheckpointSave::Begin() const {
  RunOnDisk([&] { staging_.Begin(); });
}

void CheckpointSave::WriteOwnParts() const {
  RunOnDisk([&] { pieces_.WriteTo(staging_.folder(), place_.rank); });
}

void CheckpointSave::Commit() const {
  RunOnDisk([&] {
    Manifest manifest = head_;
    Manifest gathered = TakeRankManifests(staging_.folder(), place_.num_ranks);
    RequireFolder(staging_.folder());  // or it had nothing to gather
    manifest.files = std::move(gathered.files);
    manifest.pieces = std::move(gathered.pieces);
    CheckPieces(manifest, staging_.folder() + "/" + kManifestFileName);
    staging_.Commit(manifest, model_);
  });
}

}  // namespace tessera::engine
