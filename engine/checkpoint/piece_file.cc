#include "engine/checkpoint/piece_file.h"

#include <iomanip>
#include <sstream>
#include <utility>

#include "cost_model/base/check.h"
#include "engine/checkpoint/crc32.h"
#include "engine/checkpoint/file_io.h"

namespace tessera::engine {
namespace {

std::string RankName(int rank) {
  std::ostringstream name;
  name << "rank_" << std::setfill('0') << std::setw(5) << rank;
  return name.str();
}

std::string RankManifestPath(const std::string& folder, int rank) {
  return folder + "/" + RankName(rank) + ".json";
}

std::vector<TensorDeclaration> DeclarationsOf(const std::vector<Piece>& pieces) {
  std::vector<TensorDeclaration> declarations;
  for (const Piece& piece : pieces) {
    declarations.push_back({PieceName(piece), {piece.part.count}});
  }
  return declarations;
}

}  // namespace

std::string PieceFileName(int rank) { return RankName(rank) + ".safetensors"; }

PieceFileWriter::PieceFileWriter(const std::string& folder, int rank, std::vector<Piece> pieces)
    : name_(PieceFileName(rank)),
      pieces_(std::move(pieces)),
      writer_(folder + "/" + name_, DeclarationsOf(pieces_)) {}

void PieceFileWriter::Append(std::span<const float> elements) {
  TESSERA_CHECK(next_ < pieces_.size(), "more pieces than declared");
  Piece& piece = pieces_[next_++];
  TESSERA_CHECK(static_cast<int64_t>(elements.size()) == piece.part.count, PieceName(piece), " of ",
                elements.size(), " elements");
  piece.file = 0;
  piece.crc32 = Crc32(std::as_bytes(elements));
  writer_.Append(elements);
}

Manifest PieceFileWriter::Finish() {
  TESSERA_CHECK(next_ == pieces_.size(), "fewer pieces than declared");
  writer_.Finish();
  Manifest manifest;
  manifest.files.push_back(
      {.name = name_, .size_bytes = writer_.size_bytes(), .header_crc32 = Crc32(writer_.header())});
  manifest.pieces = std::move(pieces_);
  return manifest;
}

void WriteRankManifest(const std::string& folder, int rank, const Manifest& manifest) {
  WriteWholeFile(RankManifestPath(folder, rank), WriteManifest(manifest));
}

Manifest TakeRankManifests(const std::string& folder, int num_ranks) {
  Manifest all;
  for (int rank = 0; rank < num_ranks; ++rank) {
    const std::string path = RankManifestPath(folder, rank);
    if (!PathExists(path)) continue;
    Manifest one = ParseManifest(ReadWholeFile(path), path);
    const int file = static_cast<int>(all.files.size());
    all.files.push_back(one.files.at(0));
    for (Piece& piece : one.pieces) {
      piece.file = file;
      all.pieces.push_back(std::move(piece));
    }
    RemoveTree(path);
  }
  return all;
}

}  // namespace tessera::engine
