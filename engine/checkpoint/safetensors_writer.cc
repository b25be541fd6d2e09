#include "engine/checkpoint/safetensors_writer.h"

#include <algorithm>
#include <iomanip>
#include <sstream>
#include <utility>

#include "cost_model/base/check.h"
#include "engine/checkpoint/safetensors.h"

namespace tessera::engine {
namespace {

constexpr int64_t kElementBytes = sizeof(float);

int64_t NumElements(const TensorDeclaration& tensor) {
  const std::optional<int64_t> elements = CheckedNumElements(tensor.shape);
  TESSERA_CHECK(elements.has_value(), tensor.name, " ", ShapeText(tensor.shape));
  return *elements;
}

std::string HeaderOf(const std::vector<TensorDeclaration>& tensors,
                     const std::map<std::string, std::string>& metadata) {
  std::vector<SafetensorsTensor> entries;
  for (const TensorDeclaration& tensor : tensors) {
    SafetensorsTensor& entry = entries.emplace_back();
    entry.name = tensor.name;
    entry.shape = tensor.shape;
  }
  return BuildSafetensorsHeader(entries, metadata);
}

std::string ShardName(size_t shard, size_t num_shards) {
  if (num_shards == 1) return kSafetensorsFileName;
  std::ostringstream name;
  name << std::setfill('0') << "model-" << std::setw(5) << shard + 1 << "-of-" << std::setw(5)
       << num_shards << ".safetensors";
  return name.str();
}

bool IsWeightFile(const std::string& name) {
  return name == kSafetensorsFileName || name == kSafetensorsIndexName ||
         (name.starts_with("model-") && name.ends_with(".safetensors"));
}

}  // namespace

SafetensorsWriter::SafetensorsWriter(const std::string& path,
                                     const std::vector<TensorDeclaration>& tensors,
                                     const std::map<std::string, std::string>& metadata)
    : file_(path), header_(HeaderOf(tensors, metadata)) {
  for (const TensorDeclaration& tensor : tensors) elements_left_ += NumElements(tensor);
  file_.Write(header_);
}

void SafetensorsWriter::Append(std::span<const float> elements) {
  elements_left_ -= static_cast<int64_t>(elements.size());
  TESSERA_CHECK(elements_left_ >= 0, -elements_left_, " elements more than declared");
  file_.Write(std::as_bytes(elements));
}

void SafetensorsWriter::Finish() {
  TESSERA_CHECK(elements_left_ == 0, elements_left_, " elements fewer than declared");
  file_.Commit();
}

SafetensorsModelWriter::SafetensorsModelWriter(const std::string& folder,
                                               std::vector<TensorDeclaration> tensors,
                                               int64_t max_shard_bytes)
    : folder_(folder + "/") {
  int64_t bytes = 0;  // of the last shard
  shards_.emplace_back();
  for (TensorDeclaration& tensor : tensors) {
    const int64_t tensor_bytes = NumElements(tensor) * kElementBytes;
    if (!shards_.back().tensors.empty() && bytes + tensor_bytes > max_shard_bytes) {
      shards_.emplace_back();
      bytes = 0;
    }
    bytes += tensor_bytes;
    total_bytes_ += tensor_bytes;
    shards_.back().tensors.push_back(std::move(tensor));
  }
  for (size_t i = 0; i < shards_.size(); ++i) shards_[i].name = ShardName(i, shards_.size());
}

void SafetensorsModelWriter::AppendTensor(std::span<const float> elements) {
  TESSERA_CHECK(shard_ < shards_.size(), "more tensors than declared");
  const Shard& shard = shards_[shard_];
  if (!writer_) {
    writer_ = std::make_unique<SafetensorsWriter>(folder_ + shard.name, shard.tensors);
  }
  const TensorDeclaration& tensor = shard.tensors[tensor_in_shard_];
  TESSERA_CHECK(static_cast<int64_t>(elements.size()) == NumElements(tensor), tensor.name, " of ",
                elements.size(), " elements");
  writer_->Append(elements);
  if (++tensor_in_shard_ < shard.tensors.size()) return;
  writer_->Finish();
  writer_.reset();
  tensor_in_shard_ = 0;
  ++shard_;
}

void SafetensorsModelWriter::Finish() {
  TESSERA_CHECK(shard_ == shards_.size(), "fewer tensors than declared");
  const bool has_index = shards_.size() > 1;
  if (has_index) {
    std::map<std::string, std::string> weight_map;
    for (const Shard& shard : shards_) {
      for (const TensorDeclaration& tensor : shard.tensors) weight_map[tensor.name] = shard.name;
    }
    WriteWholeFile(folder_ + kSafetensorsIndexName,
                   BuildSafetensorsIndex(weight_map, total_bytes_));
  }
  for (const std::string& name : ListFolder(folder_)) {
    const bool is_ours = (has_index && name == kSafetensorsIndexName) ||
                         std::any_of(shards_.begin(), shards_.end(),
                                     [&](const Shard& shard) { return shard.name == name; });
    if (IsWeightFile(name) && !is_ours) RemoveTree(folder_ + name);
  }
  SyncFolder(folder_);
}

}  // namespace tessera::engine
