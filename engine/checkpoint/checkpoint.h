// Native checkpoints: saved by any layout, loaded by any other.
#pragma once

#include <cstdint>
#include <string>

#include "cost_model/spec/model_spec.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/checkpoint/checkpoint_info.h"
#include "engine/comm/communicator.h"
#include "engine/optimizer/train_state.h"

namespace tessera::engine {

// Collective. Writes <save_folder>/step_<8 digits>/ and returns its path: each rank its own owned
// ranges, then rank 0 the manifest. The folder gets its name when everything is on the disk, and
// COMPLETE last. Weights alone are saved where state.m is null. When the disk fails on any rank
// all throw, the temporary folder is removed and earlier checkpoints stay as they are; the failing
// rank throws base::SystemError naming the call and the path.
// REQUIRES: all ranks see one file system.
std::string SaveCheckpoint(const TrainState& state, const CheckpointInfo& info, Communicator& world,
                           const std::string& save_folder);

// Not collective: each rank reads what it needs. `folder` is a checkpoint, or a save folder whose
// newest complete checkpoint is taken. Fills all weights of the state, tied copies and replicas
// included, the moments of its owned ranges (zeros where the checkpoint has none) and the progress;
// padding becomes zero. Throws base::ConfigError for a checkpoint that is incomplete or damaged,
// naming file and tensor, or of another model than `model`.
CheckpointInfo LoadCheckpoint(const std::string& folder, const spec::ModelSpec& model,
                              TrainState& state);

// Collective. The training state's weights in Hugging Face's form in `folder`: config.json and
// model.safetensors (or shards). Other files there are kept. Ranks exchange their weights through
// a temporary folder beside it. Throws base::ConfigError for a model that no Hugging Face family
// describes, and as SaveCheckpoint does for the disk.
void ExportHuggingFaceModel(const TrainState& state, const spec::ModelSpec& model,
                            Communicator& world, const std::string& folder);

}  // namespace tessera::engine
