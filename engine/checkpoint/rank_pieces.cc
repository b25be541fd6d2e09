#include "engine/checkpoint/rank_pieces.h"

#include <algorithm>

#include "engine/checkpoint/piece_file.h"
#include "engine/checkpoint/state_parts.h"

namespace tessera::engine {

RankPieces::RankPieces(const TrainState& state) {
  for (const StatePart& part : PartsToSave(state)) {
    const spec::ParameterSpec& parameter = state.parameters[part.parameter];
    Piece& piece = pieces_.emplace_back();
    piece.parameter = parameter.name;
    piece.kind = part.kind;
    piece.part = WithoutPadding(parameter.global_shape, part.part);
    sources_.push_back({.shape = parameter.global_shape, .part = part.part, .data = part.data});
  }
}

bool RankPieces::IsDense(const Source& source) {
  // Padding at the end of dimension 0 leaves the rest in one run.
  return source.part.dim == 0 || source.part.stored_size == source.part.size;
}

void RankPieces::CopyPiece(size_t piece, float* output) const {
  const Source& source = sources_[piece];
  const TensorPart& wanted = pieces_[piece].part;
  if (IsDense(source)) {
    std::copy_n(source.data, wanted.count, output);
  } else {
    CopyOverlap(source.shape, source.part, source.data, wanted, output);
  }
}

void RankPieces::Detach() {
  int64_t count = 0;
  for (const Piece& piece : pieces_) count += piece.part.count;
  std::vector<float> copies(static_cast<size_t>(count));
  float* next = copies.data();
  for (size_t i = 0; i < pieces_.size(); ++i) {
    CopyPiece(i, next);
    sources_[i].part = pieces_[i].part;
    sources_[i].data = next;
    next += pieces_[i].part.count;
  }
  copies_ = std::move(copies);
}

void RankPieces::WriteTo(const std::string& folder, int rank) const {
  if (pieces_.empty()) return;
  PieceFileWriter writer(folder, rank, pieces_);
  std::vector<float> dense;
  for (size_t i = 0; i < pieces_.size(); ++i) {
    const auto count = static_cast<size_t>(pieces_[i].part.count);
    if (IsDense(sources_[i])) {
      writer.Append({sources_[i].data, count});
      continue;
    }
    dense.resize(count);
    CopyPiece(i, dense.data());
    writer.Append(dense);
  }
  WriteRankManifest(folder, rank, writer.Finish());
}

}  // namespace tessera::engine
