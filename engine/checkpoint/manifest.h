// What a native checkpoint holds. Each file is a safetensors file written by one rank; its tensors
// are pieces: contiguous elements of a slice of a parameter, or of its Adam moments. The pieces of
// all files make up every parameter exactly once, whatever the layout was.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cost_model/spec/model_spec.h"
#include "engine/checkpoint/tensor_part.h"
#include "engine/optimizer/train_state.h"

namespace tessera::engine {

// Version 1 lacks skipped steps and the loss scale, which count as none, version 2 the recent
// losses.
inline constexpr int kCheckpointFormatVersion = 3;
inline constexpr int kOldestCheckpointFormatVersion = 1;

enum class StateKind : uint8_t { kWeight, kM, kV };  // Adam's first and second moment
std::string_view ToString(StateKind kind);           // "weight", "m", "v"
std::optional<StateKind> StateKindFromString(std::string_view text);

struct CheckpointFile {
  std::string name;
  int64_t size_bytes = 0;
  uint32_t header_crc32 = 0;  // of everything before the tensors' data
  bool operator==(const CheckpointFile&) const = default;
};

struct CheckpointParameter {
  std::string name;
  std::vector<int64_t> shape;  // global, without padding
  bool operator==(const CheckpointParameter&) const = default;
};

struct Piece {
  std::string parameter;
  StateKind kind = StateKind::kWeight;
  int file = 0;        // index into Manifest::files
  TensorPart part;     // without padding
  uint32_t crc32 = 0;  // of its bytes
  bool operator==(const Piece&) const = default;
};

struct Manifest {
  TrainProgress progress;
  uint64_t seed = 0;
  std::string training;  // what was trained with, for people
  std::vector<CheckpointFile> files;
  std::vector<CheckpointParameter> parameters;
  std::vector<Piece> pieces;
  bool operator==(const Manifest&) const = default;

  bool HasOptimizerState() const;
};

// The name of a piece's tensor in its file: "output.weight/m/0:512/4096", with the slice's index
// range and the first element.
std::string PieceName(const Piece& piece);

// The parameters that a checkpoint of this model holds.
std::vector<CheckpointParameter> CheckpointParameters(const spec::ModelSpec& model);

std::string WriteManifest(const Manifest& manifest);
// Throws base::ConfigError for broken JSON, another format version, a missing, unknown or ill-typed
// key.
Manifest ParseManifest(const std::string& text, const std::string& path);

// Throws base::ConfigError, naming the parameter, unless every number is in range and the pieces
// of each parameter's weights, and of both moments or neither, hold each element exactly once.
void CheckPieces(const Manifest& manifest, const std::string& path);

// Throws base::ConfigError naming the first key in which the models differ. Not compared: what a
// checkpoint does not depend on, the name and the spread of initial weights.
void RequireSameModel(const spec::ModelSpec& found, const spec::ModelSpec& expected,
                      const std::string& path);

}  // namespace tessera::engine
