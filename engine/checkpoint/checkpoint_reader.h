// Reading a native checkpoint: any part of any parameter, whatever layout wrote it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cost_model/spec/model_spec.h"
#include "engine/checkpoint/manifest.h"
#include "engine/checkpoint/safetensors.h"

namespace tessera::engine {

class CheckpointReader {
 public:
  // `folder` as FindCheckpoint takes it. Throws base::ConfigError for a checkpoint that is
  // incomplete, or whose manifest contradicts itself or its model. Data files are opened, and
  // pieces checked, when they are read.
  explicit CheckpointReader(const std::string& folder);

  const std::string& folder() const { return folder_; }
  const Manifest& manifest() const { return manifest_; }
  const spec::ModelSpec& model() const { return model_; }

  // Copies the elements of `part`, padding apart, which stays as it is. `output` points at the
  // part's first element. Throws base::ConfigError naming file and piece for data that is missing
  // or does not match its checksum.
  void Read(const std::string& parameter, StateKind kind, const TensorPart& part, float* output);

  // Reads everything, or share `share` of `num_shares` of the files; one line for each file or
  // piece that is missing or damaged.
  std::vector<std::string> FindDamage(int share = 0, int num_shares = 1);

 private:
  const std::vector<int64_t>& ShapeOf(const std::string& parameter) const;
  const SafetensorsFile& FileOf(const Piece& piece);
  const float* DataOf(size_t piece);

  std::string folder_;
  Manifest manifest_;
  spec::ModelSpec model_;
  std::map<std::string, std::vector<int64_t>> shapes_;
  std::map<std::pair<std::string, StateKind>, std::vector<size_t>> pieces_;  // into the manifest
  std::vector<std::unique_ptr<SafetensorsFile>> files_;                      // null: not open
  std::vector<const float*> data_;  // by piece; null: not checked
};

}  // namespace tessera::engine
