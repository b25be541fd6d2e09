#include "engine/checkpoint/weights_checkpoint.h"

#include <utility>
#include <vector>

#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/checkpoint/file_io.h"
#include "engine/checkpoint/piece_file.h"

namespace tessera::engine {

std::string WriteWeightsCheckpoint(const std::string& save_folder, const spec::ModelSpec& model,
                                   const std::string& origin, const ReadParameterFunction& read) {
  const std::vector<CheckpointParameter> parameters = CheckpointParameters(model);
  std::vector<Piece> pieces;
  for (const CheckpointParameter& parameter : parameters) {
    Piece& piece = pieces.emplace_back();
    piece.parameter = parameter.name;
    piece.part = WholeTensor(parameter.shape);
  }
  MakeFolders(save_folder);
  const CheckpointStaging staging(save_folder, /*step=*/0, TemporarySuffix());
  try {
    staging.Begin();
    PieceFileWriter writer(staging.folder(), /*rank=*/0, std::move(pieces));
    std::vector<float> elements;
    for (const CheckpointParameter& parameter : parameters) {
      elements.resize(static_cast<size_t>(WholeTensor(parameter.shape).count));
      read(parameter, elements);
      writer.Append(elements);
    }
    Manifest manifest = writer.Finish();
    manifest.parameters = parameters;
    manifest.training = origin;
    CheckPieces(manifest, staging.folder() + "/" + kManifestFileName);
    staging.Commit(manifest, model);
  } catch (const std::exception&) {
    staging.Abandon();
    throw;
  }
  return staging.final_folder();
}

}  // namespace tessera::engine
