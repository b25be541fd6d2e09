// Writing safetensors, tensors as they are produced.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/checkpoint/file_io.h"
#include "engine/checkpoint/safetensors_header.h"

namespace tessera::engine {

struct TensorDeclaration {
  std::string name;
  std::vector<int64_t> shape;
};

// One file of F32 tensors. It appears under its name, synced to disk, at Finish, or not at all.
// Disk failures are base::SystemError.
class SafetensorsWriter {
 public:
  // Every tensor that will follow, in the order in which it will.
  SafetensorsWriter(const std::string& path, const std::vector<TensorDeclaration>& tensors,
                    const std::map<std::string, std::string>& metadata = {{"format", "pt"}});

  // The next elements, row-major; calls need not keep to tensor borders.
  void Append(std::span<const float> elements);
  // REQUIRES: as many elements were appended as were declared.
  void Finish();

  const std::string& header() const { return header_; }  // as written
  int64_t size_bytes() const { return file_.size_bytes(); }

 private:
  OutputFile file_;
  std::string header_;
  int64_t elements_left_ = 0;
};

// Largest file of a model by default: what Hugging Face's tools expect to be comfortable.
inline constexpr int64_t kDefaultMaxShardBytes = 5'000'000'000;

// The files of a model in a folder: model.safetensors, or above `max_shard_bytes` of data the
// shards model-00001-of-0000n.safetensors and their index. A tensor is never cut. Finish also
// removes weight files of an earlier, differently sharded model there.
class SafetensorsModelWriter {
 public:
  SafetensorsModelWriter(const std::string& folder, std::vector<TensorDeclaration> tensors,
                         int64_t max_shard_bytes = kDefaultMaxShardBytes);

  // All elements of the next tensor.
  void AppendTensor(std::span<const float> elements);
  void Finish();

 private:
  struct Shard {
    std::string name;
    std::vector<TensorDeclaration> tensors;
  };

  std::string folder_;
  std::vector<Shard> shards_;
  size_t shard_ = 0;            // being written
  size_t tensor_in_shard_ = 0;  // next
  std::unique_ptr<SafetensorsWriter> writer_;
  int64_t total_bytes_ = 0;
};

}  // namespace tessera::engine
