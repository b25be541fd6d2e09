#include "engine/checkpoint/checkpoint.h"

#include <algorithm>
#include <vector>

#include "cost_model/base/error.h"
#include "engine/checkpoint/checkpoint_reader.h"
#include "engine/checkpoint/checkpoint_save.h"
#include "engine/checkpoint/collective_work.h"
#include "engine/checkpoint/file_io.h"
#include "engine/checkpoint/hugging_face.h"
#include "engine/checkpoint/state_parts.h"

namespace tessera::engine {

std::string SaveCheckpoint(const TrainState& state, const CheckpointInfo& info, Communicator& world,
                           const std::string& save_folder) {
  const CheckpointSave save(state, info,
                            {.save_folder = save_folder,
                             .suffix = SharedSuffix(world),
                             .rank = world.rank(),
                             .num_ranks = world.size()});
  const std::string what = "saving " + save.folder();
  try {
    RunOnFirstRank(world, what, [&] {
      MakeFolders(save_folder);
      save.Begin();
    });
    RunOnAllRanks(world, what, [&] { save.WriteOwnParts(); });
    RunOnFirstRank(world, what, [&] { save.Commit(); });
  } catch (const std::exception&) {  // to tidy up, whatever happened
    if (world.rank() == 0) save.Abandon();
    throw;
  }
  return save.folder();
}

CheckpointInfo LoadCheckpoint(const std::string& folder, const spec::ModelSpec& model,
                              TrainState& state) {
  CheckpointReader reader(folder);
  RequireSameModel(reader.model(), model, reader.folder() + "/" + kModelFileName);
  const Manifest& manifest = reader.manifest();
  const bool has_moments = manifest.HasOptimizerState();
  std::fill_n(state.weights, NumWeights(state), 0.0f);
  std::vector<StatePart> parts = WeightParts(state);
  if (state.m != nullptr) {
    std::fill_n(state.m, spec::NumOwnedElements(state.owned), 0.0f);
    std::fill_n(state.v, spec::NumOwnedElements(state.owned), 0.0f);
    if (has_moments) {
      for (const StatePart& part : MomentParts(state)) parts.push_back(part);
    }
  }
  for (const StatePart& part : parts) {
    reader.Read(state.parameters[part.parameter].name, part.kind, part.part, part.data);
  }
  state.progress = manifest.progress;
  return {.model = reader.model(),
          .seed = manifest.seed,
          .training = manifest.training,
          .progress = manifest.progress,
          .has_optimizer_state = has_moments};
}

void ExportHuggingFaceModel(const TrainState& state, const spec::ModelSpec& model,
                            Communicator& world, const std::string& folder) {
  HuggingFaceTensors(model);  // throws on every rank alike, before anything is written
  TrainState weights = state;
  weights.m = weights.v = nullptr;
  const CheckpointInfo info = {
      .model = model, .seed = 0, .training = "", .progress = {}, .has_optimizer_state = false};
  const std::string pieces_folder = folder + SharedSuffix(world);
  const auto remove_pieces = [&] {
    if (world.rank() == 0) TryRemoveTree(pieces_folder);
  };
  try {
    const std::string checkpoint = SaveCheckpoint(weights, info, world, pieces_folder);
    RunOnFirstRank(world, "exporting " + folder, [&] { ConvertToHuggingFace(checkpoint, folder); });
  } catch (const std::exception&) {
    remove_pieces();
    throw;
  }
  remove_pieces();
}

}  // namespace tessera::engine
