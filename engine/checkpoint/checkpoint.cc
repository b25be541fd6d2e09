#include "engine/checkpoint/checkpoint.h"

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "cost_model/base/error.h"
#include "engine/checkpoint/checkpoint_reader.h"
#include "engine/checkpoint/collective_work.h"
#include "engine/checkpoint/file_io.h"
#include "engine/checkpoint/hugging_face.h"
#include "engine/checkpoint/piece_file.h"
#include "engine/checkpoint/state_parts.h"

namespace tessera::engine {
namespace {

// The suffix of rank 0, on every rank.
std::string SharedSuffix(Communicator& world) {
  return BroadcastText(world, world.rank() == 0 ? TemporarySuffix() : "", /*root=*/0);
}

// This rank's data file and the list of its pieces.
void WriteOwnParts(const TrainState& state, int rank, const std::string& folder) {
  const std::vector<StatePart> parts = PartsToSave(state);
  if (parts.empty()) return;
  std::vector<Piece> pieces;
  for (const StatePart& part : parts) {
    const spec::ParameterSpec& parameter = state.parameters[part.parameter];
    Piece& piece = pieces.emplace_back();
    piece.parameter = parameter.name;
    piece.kind = part.kind;
    piece.part = WithoutPadding(parameter.global_shape, part.part);
  }
  PieceFileWriter writer(folder, rank, pieces);
  std::vector<float> dense;
  for (size_t i = 0; i < parts.size(); ++i) {
    const std::vector<int64_t>& shape = state.parameters[parts[i].parameter].global_shape;
    const TensorPart& stored = parts[i].part;
    const TensorPart& wanted = pieces[i].part;
    const auto count = static_cast<size_t>(wanted.count);
    // Padding at the end of dimension 0 leaves the rest in one run.
    if (stored.dim == 0 || stored.stored_size == stored.size) {
      writer.Append({parts[i].data, count});
      continue;
    }
    dense.resize(count);
    CopyOverlap(shape, stored, parts[i].data, wanted, dense.data());
    writer.Append(dense);
  }
  WriteRankManifest(folder, rank, writer.Finish());
}

Manifest GatherManifest(const CheckpointStaging& staging, const TrainState& state,
                        const CheckpointInfo& info, int num_ranks) {
  Manifest manifest = TakeRankManifests(staging.folder(), num_ranks);
  manifest.step = state.step;
  manifest.consumed_samples = state.consumed_samples;
  manifest.seed = info.seed;
  manifest.training = info.training;
  manifest.parameters = CheckpointParameters(info.model);
  CheckPieces(manifest, staging.folder() + "/" + kManifestFileName);
  return manifest;
}

void SaveInto(const CheckpointStaging& staging, const TrainState& state, const CheckpointInfo& info,
              Communicator& world) {
  const std::string what = "saving " + staging.final_folder();
  RunOnFirstRank(world, what, [&] { staging.Begin(); });
  RunOnAllRanks(world, what, [&] { WriteOwnParts(state, world.rank(), staging.folder()); });
  RunOnFirstRank(world, what, [&] {
    staging.Commit(GatherManifest(staging, state, info, world.size()), info.model);
  });
}

}  // namespace

std::string SaveCheckpoint(const TrainState& state, const CheckpointInfo& info, Communicator& world,
                           const std::string& save_folder) {
  const CheckpointStaging staging(save_folder, state.step, SharedSuffix(world));
  try {
    SaveInto(staging, state, info, world);
  } catch (const std::exception&) {  // to tidy up, whatever happened
    if (world.rank() == 0) staging.Abandon();
    throw;
  }
  return staging.final_folder();
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
  state.step = manifest.step;
  state.consumed_samples = manifest.consumed_samples;
  return {.model = reader.model(),
          .seed = manifest.seed,
          .training = manifest.training,
          .step = manifest.step,
          .consumed_samples = manifest.consumed_samples,
          .has_optimizer_state = has_moments};
}

void ExportHuggingFaceModel(const TrainState& state, const spec::ModelSpec& model,
                            Communicator& world, const std::string& folder) {
  HuggingFaceTensors(model);  // throws on every rank alike, before anything is written
  TrainState weights = state;
  weights.m = weights.v = nullptr;
  const CheckpointInfo info = {.model = model,
                               .seed = 0,
                               .training = "",
                               .step = 0,
                               .consumed_samples = 0,
                               .has_optimizer_state = false};
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
