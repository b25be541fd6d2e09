// What one rank puts into a checkpoint.
#pragma once

#include <string>
#include <vector>

#include "engine/checkpoint/manifest.h"
#include "engine/optimizer/train_state.h"

namespace tessera::engine {

class RankPieces {
 public:
  // Of PartsToSave, padding apart. The state's memory is read until Detach or the last WriteTo.
  explicit RankPieces(const TrainState& state);

  // Copies the values, so that the state may change: 12 bytes for each element that this rank
  // saves with its moments.
  void Detach();
  // Writes the rank's data file and its list of pieces into the folder; nothing where the rank has
  // nothing to save.
  void WriteTo(const std::string& folder, int rank) const;

 private:
  // Where a piece's values are: part of a slice that may be padded.
  struct Source {
    std::vector<int64_t> shape;  // of the parameter
    TensorPart part;
    const float* data = nullptr;  // its first element
  };
  // Whether the values lie as in a file, in one run.
  static bool IsDense(const Source& source);
  void CopyPiece(size_t piece, float* output) const;

  std::vector<Piece> pieces_;
  std::vector<Source> sources_;  // of the pieces
  std::vector<float> copies_;    // of all, one piece after the other, once detached
};

}  // namespace tessera::engine
