#include "engine/checkpoint/checkpoint_reader.h"

#include "cost_model/base/error.h"
#include "cost_model/spec/spec_json.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/checkpoint/crc32.h"
#include "engine/checkpoint/file_io.h"

namespace tessera::engine {
namespace {

using base::Concat;
using base::ConfigError;

std::string KeyOf(const Piece& piece) {
  return Concat("tensor '", PrintableName(PieceName(piece)), "'");
}

}  // namespace

CheckpointReader::CheckpointReader(const std::string& folder) : folder_(FindCheckpoint(folder)) {
  RequireComplete(folder_);
  const std::string path = folder_ + "/" + kManifestFileName;
  manifest_ = ParseManifest(ReadWholeFile(path), path);
  model_ = spec::LoadModel(folder_ + "/" + kModelFileName);
  if (manifest_.parameters != CheckpointParameters(model_)) {
    throw ConfigError(path, "/parameters", "other names or shapes",
                      Concat("those of the model in ", kModelFileName));
  }
  CheckPieces(manifest_, path);
  for (const CheckpointParameter& parameter : manifest_.parameters) {
    shapes_[parameter.name] = parameter.shape;
  }
  for (size_t i = 0; i < manifest_.pieces.size(); ++i) {
    const Piece& piece = manifest_.pieces[i];
    pieces_[{piece.parameter, piece.kind}].push_back(i);
  }
  files_.resize(manifest_.files.size());
  data_.resize(manifest_.pieces.size());
}

const std::vector<int64_t>& CheckpointReader::ShapeOf(const std::string& parameter) const {
  const auto found = shapes_.find(parameter);
  if (found == shapes_.end()) {
    throw ConfigError(folder_, Concat("parameter '", PrintableName(parameter), "'"), "none",
                      "the parameter in the checkpoint");
  }
  return found->second;
}

void CheckpointReader::Read(const std::string& parameter, StateKind kind, const TensorPart& part,
                            float* output) {
  const std::vector<int64_t>& shape = ShapeOf(parameter);
  const int64_t needed = WithoutPadding(shape, part).count;
  int64_t copied = 0;
  for (const size_t i : pieces_[{parameter, kind}]) {
    const TensorPart& stored = manifest_.pieces[i].part;
    if (!AreComparable(shape, stored, part)) {
      throw ConfigError(folder_ + "/" + kManifestFileName, KeyOf(manifest_.pieces[i]),
                        Concat("a slice of dim ", stored.dim), Concat("one of dim ", part.dim));
    }
    if (copied == needed || !MayOverlap(shape, stored, part)) continue;
    copied += CopyOverlap(shape, stored, DataOf(i), part, output);
  }
  // CheckPieces has seen each element once; only a kind that is absent can be short.
  if (copied != needed) {
    throw ConfigError(folder_, Concat("parameter '", PrintableName(parameter), "'"),
                      Concat(copied, " elements of kind ", ToString(kind)), Concat(needed));
  }
}

const SafetensorsFile& CheckpointReader::FileOf(const Piece& piece) {
  std::unique_ptr<SafetensorsFile>& slot = files_[piece.file];
  if (slot) return *slot;
  const CheckpointFile& expected = manifest_.files[piece.file];
  const std::string path = folder_ + "/" + expected.name;
  auto file = std::make_unique<SafetensorsFile>(path);
  const auto size_bytes = static_cast<int64_t>(file->file_bytes().size());
  if (size_bytes != expected.size_bytes) {
    throw ConfigError(path, "", Concat(size_bytes, " bytes"),
                      Concat(expected.size_bytes, ", as the manifest says"));
  }
  const uint32_t crc32 =
      Crc32(file->file_bytes().first(static_cast<size_t>(file->header().data_begin_bytes)));
  if (crc32 != expected.header_crc32) {
    throw ConfigError(path, "header", Concat("checksum ", Crc32Text(crc32)),
                      Concat(Crc32Text(expected.header_crc32), ": the file is damaged"));
  }
  slot = std::move(file);
  return *slot;
}

const float* CheckpointReader::DataOf(size_t i) {
  if (data_[i] != nullptr) return data_[i];
  const Piece& piece = manifest_.pieces[i];
  const SafetensorsFile& file = FileOf(piece);
  const SafetensorsTensor* const tensor = file.Find(PieceName(piece));
  if (tensor == nullptr || tensor->type != SafetensorsType::kF32 ||
      tensor->NumElements() != piece.part.count) {
    throw ConfigError(file.path(), KeyOf(piece),
                      tensor == nullptr ? "none" : "another type or size",
                      Concat(piece.part.count, " elements of F32"));
  }
  const std::span<const std::byte> bytes = file.Bytes(*tensor);
  const uint32_t crc32 = Crc32(bytes);
  if (crc32 != piece.crc32) {
    throw ConfigError(file.path(), KeyOf(piece), Concat("checksum ", Crc32Text(crc32)),
                      Concat(Crc32Text(piece.crc32), ": the data is damaged"));
  }
  if (reinterpret_cast<uintptr_t>(bytes.data()) % alignof(float) != 0) {
    throw ConfigError(file.path(), KeyOf(piece), "data at an odd offset", "a multiple of 4");
  }
  data_[i] = reinterpret_cast<const float*>(bytes.data());
  return data_[i];
}

std::vector<std::string> CheckpointReader::FindDamage(int share, int num_shares) {
  std::vector<std::string> damage;
  std::vector<bool> file_failed(manifest_.files.size());
  for (size_t i = 0; i < manifest_.pieces.size(); ++i) {
    const int file = manifest_.pieces[i].file;
    if (file_failed[file] || file % num_shares != share) continue;
    try {
      FileOf(manifest_.pieces[i]);
    } catch (const ConfigError& error) {  // collected: the caller wants all of them
      file_failed[file] = true;
      damage.emplace_back(error.what());
      continue;
    }
    try {
      DataOf(i);
    } catch (const ConfigError& error) {
      damage.emplace_back(error.what());
    }
  }
  return damage;
}

}  // namespace tessera::engine
