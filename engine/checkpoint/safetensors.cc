#include "engine/checkpoint/safetensors.h"

#include <cstring>
#include <filesystem>
#include <set>

#include "cost_model/base/error.h"
#include "cost_model/base/float16.h"

namespace tessera::engine {
namespace {

using base::Concat;
using base::ConfigError;

template <float (*Convert)(uint16_t)>
void ConvertHalves(const std::byte* bytes, int64_t count, float* output) {
  for (int64_t i = 0; i < count; ++i) {
    uint16_t bits;
    std::memcpy(&bits, bytes + 2 * i, sizeof bits);
    output[i] = Convert(bits);
  }
}

}  // namespace

SafetensorsFile::SafetensorsFile(const std::string& path)
    : file_(path), header_(ParseSafetensorsHeader(file_.bytes(), path)) {
  for (size_t i = 0; i < header_.tensors.size(); ++i) index_[header_.tensors[i].name] = i;
}

const SafetensorsTensor* SafetensorsFile::Find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &header_.tensors[found->second];
}

std::span<const std::byte> SafetensorsFile::Bytes(const SafetensorsTensor& tensor) const {
  return file_.bytes().subspan(static_cast<size_t>(header_.data_begin_bytes + tensor.begin_bytes),
                               static_cast<size_t>(tensor.end_bytes - tensor.begin_bytes));
}

SafetensorsSet::SafetensorsSet(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) {
    AddFile(path);
    return;
  }
  const std::string folder = path + "/";
  // As Hugging Face's libraries do, the single file comes first where both exist.
  if (PathExists(folder + kSafetensorsFileName)) {
    AddFile(folder + kSafetensorsFileName);
    return;
  }
  const std::string index_path = folder + kSafetensorsIndexName;
  if (!PathExists(index_path)) {
    throw ConfigError(path, "", "no safetensors file",
                      Concat(kSafetensorsFileName, " or ", kSafetensorsIndexName));
  }
  const std::map<std::string, std::string> weight_map = ReadSafetensorsIndex(index_path);
  std::set<std::string> names;
  for (const auto& [tensor, file] : weight_map) names.insert(file);
  for (const std::string& name : names) AddFile(folder + name);
  for (const auto& [tensor, file] : weight_map) {
    const TensorView* const view = Find(tensor);
    if (view == nullptr || view->file->path() != folder + file) {
      throw ConfigError(index_path, Concat("tensor '", PrintableName(tensor), "'"),
                        Concat("none in ", file), "the tensor in the file that the index names");
    }
  }
}

void SafetensorsSet::AddFile(const std::string& path) {
  files_.push_back(std::make_unique<SafetensorsFile>(path));
  const SafetensorsFile& file = *files_.back();
  for (const SafetensorsTensor& tensor : file.header().tensors) {
    const auto [place, is_new] = tensors_.emplace(tensor.name, TensorView{&tensor, &file});
    if (!is_new) {
      throw ConfigError(path, Concat("tensor '", PrintableName(tensor.name), "'"),
                        Concat("the name again, after ", place->second.file->path()),
                        "each name in one shard");
    }
  }
}

const TensorView* SafetensorsSet::Find(const std::string& name) const {
  const auto found = tensors_.find(name);
  return found == tensors_.end() ? nullptr : &found->second;
}

bool IsFloatType(SafetensorsType type) {
  return type == SafetensorsType::kF32 || type == SafetensorsType::kF16 ||
         type == SafetensorsType::kBF16;
}

void ReadFloats(const TensorView& view, int64_t first, int64_t count, float* output) {
  const SafetensorsType type = view.tensor->type;
  TESSERA_CHECK(first >= 0 && count >= 0 && first + count <= view.tensor->NumElements(),
                view.tensor->name, ": ", first, " + ", count);
  const std::byte* const bytes = view.Bytes().data() + first * SizeBytes(type);
  switch (type) {
    case SafetensorsType::kF32:
      if (count > 0) std::memcpy(output, bytes, static_cast<size_t>(count) * sizeof(float));
      return;
    case SafetensorsType::kF16:
      ConvertHalves<base::Float16ToFloat>(bytes, count, output);
      return;
    case SafetensorsType::kBF16:
      ConvertHalves<base::BFloat16ToFloat>(bytes, count, output);
      return;
    default:
      TESSERA_CHECK(false, view.tensor->name, " of type ", ToString(type));
  }
}

}  // namespace tessera::engine
