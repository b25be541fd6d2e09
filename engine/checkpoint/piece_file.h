// One rank's data file of a native checkpoint.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "engine/checkpoint/manifest.h"
#include "engine/checkpoint/safetensors_writer.h"

namespace tessera::engine {

std::string PieceFileName(int rank);  // "rank_00003.safetensors"

// Writes pieces, in the order given, as they are produced.
class PieceFileWriter {
 public:
  // File indices and checksums of `pieces` are not read.
  PieceFileWriter(const std::string& folder, int rank, std::vector<Piece> pieces);

  // All elements of the next piece.
  void Append(std::span<const float> elements);
  // The file and its pieces, for a manifest in which it is file 0. REQUIRES: all were appended.
  Manifest Finish();

 private:
  std::string name_;
  std::vector<Piece> pieces_;
  size_t next_ = 0;
  SafetensorsWriter writer_;
};

// A rank leaves what Finish returned beside its data file, for the rank that makes the manifest.
void WriteRankManifest(const std::string& folder, int rank, const Manifest& manifest);
// Gathers those of all ranks, those that wrote nothing apart, and removes them.
// The result holds files and pieces only.
Manifest TakeRankManifests(const std::string& folder, int num_ranks);

}  // namespace tessera::engine
