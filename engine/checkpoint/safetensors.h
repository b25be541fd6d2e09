// Reading safetensors: one file, or the shards that an index names.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/checkpoint/file_io.h"
#include "engine/checkpoint/safetensors_header.h"

namespace tessera::engine {

// The names that Hugging Face's libraries give to the files of a model.
inline constexpr const char* kSafetensorsFileName = "model.safetensors";
inline constexpr const char* kSafetensorsIndexName = "model.safetensors.index.json";

// One mapped file whose header is valid. Throws base::ConfigError for a missing, truncated or
// otherwise broken file.
class SafetensorsFile {
 public:
  explicit SafetensorsFile(const std::string& path);

  const SafetensorsHeader& header() const { return header_; }
  const std::string& path() const { return file_.path(); }
  std::span<const std::byte> file_bytes() const { return file_.bytes(); }
  // Null when there is none.
  const SafetensorsTensor* Find(const std::string& name) const;
  std::span<const std::byte> Bytes(const SafetensorsTensor& tensor) const;

 private:
  MappedFile file_;
  SafetensorsHeader header_;
  std::map<std::string, size_t> index_;  // by name, into header_.tensors
};

// A tensor and where its bytes lie; valid as long as the set it comes from.
struct TensorView {
  const SafetensorsTensor* tensor = nullptr;
  const SafetensorsFile* file = nullptr;
  std::span<const std::byte> Bytes() const { return file->Bytes(*tensor); }
};

// All tensors of a model: of a .safetensors file, or of a folder with model.safetensors or with
// model.safetensors.index.json and the shards it names. Throws base::ConfigError when a file is
// missing or broken, an index names a tensor that its shard lacks, or two shards hold one name.
class SafetensorsSet {
 public:
  explicit SafetensorsSet(const std::string& path);

  const std::map<std::string, TensorView>& tensors() const { return tensors_; }
  const TensorView* Find(const std::string& name) const;  // null when there is none
  const std::vector<std::unique_ptr<SafetensorsFile>>& files() const { return files_; }

 private:
  void AddFile(const std::string& path);

  std::vector<std::unique_ptr<SafetensorsFile>> files_;  // pointers: views refer to them
  std::map<std::string, TensorView> tensors_;
};

// The weight_map of an index file: tensor name to file name, without a folder. Throws
// base::ConfigError for anything else.
std::map<std::string, std::string> ReadSafetensorsIndex(const std::string& path);
// REQUIRES: total_bytes is the size of all tensors' data.
std::string BuildSafetensorsIndex(const std::map<std::string, std::string>& weight_map,
                                  int64_t total_bytes);

// Whether ReadFloats takes the type: F32, F16 or BF16.
bool IsFloatType(SafetensorsType type);
// Elements [first, first + count) of a tensor of a float type, as fp32 (exact).
void ReadFloats(const TensorView& view, int64_t first, int64_t count, float* output);

}  // namespace tessera::engine
