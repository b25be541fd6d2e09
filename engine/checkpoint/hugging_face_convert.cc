#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "cost_model/spec/spec_json.h"
#include "engine/checkpoint/checkpoint_reader.h"
#include "engine/checkpoint/file_io.h"
#include "engine/checkpoint/hugging_face.h"
#include "engine/checkpoint/weights_checkpoint.h"

namespace tessera::engine {
namespace {

size_t NumElements(const std::vector<int64_t>& shape) {
  return static_cast<size_t>(WholeTensor(shape).count);
}

// `matrix` [rows, columns] as [columns, rows].
std::vector<float> Transpose(const std::vector<float>& matrix, int64_t rows, int64_t columns) {
  constexpr int64_t kTile = 32;  // as in reading: both sides stay in the cache
  std::vector<float> result(matrix.size());
  for (int64_t r0 = 0; r0 < rows; r0 += kTile) {
    for (int64_t c0 = 0; c0 < columns; c0 += kTile) {
      for (int64_t c = c0; c < std::min(c0 + kTile, columns); ++c) {
        for (int64_t r = r0; r < std::min(r0 + kTile, rows); ++r) {
          result[c * rows + r] = matrix[r * columns + c];
        }
      }
    }
  }
  return result;
}

// The tensor's elements as Hugging Face stores them.
std::vector<float> Assemble(const HuggingFaceTensor& tensor, CheckpointReader& reader) {
  std::vector<float> elements(NumElements(tensor.shape));
  size_t at = 0;
  for (const spec::ParameterSpec& part : tensor.parts) {
    reader.Read(part.name, StateKind::kWeight, WholeTensor(part.global_shape),
                elements.data() + at);
    at += NumElements(part.global_shape);
  }
  if (!tensor.transposed) return elements;
  return Transpose(elements, tensor.shape[1], tensor.shape[0]);
}

}  // namespace

void ConvertToHuggingFace(const std::string& checkpoint, const std::string& folder,
                          int64_t max_shard_bytes) {
  CheckpointReader reader(checkpoint);
  const std::vector<HuggingFaceTensor> tensors = HuggingFaceTensors(reader.model());
  const std::string config = spec::WriteHuggingFaceConfig(reader.model());
  std::vector<TensorDeclaration> declarations;
  for (const HuggingFaceTensor& tensor : tensors) {
    declarations.push_back({tensor.name, tensor.shape});
  }
  MakeFolders(folder);
  SafetensorsModelWriter writer(folder, std::move(declarations), max_shard_bytes);
  for (const HuggingFaceTensor& tensor : tensors) writer.AppendTensor(Assemble(tensor, reader));
  writer.Finish();
  WriteWholeFile(folder + "/" + kHuggingFaceConfigName, config);
  SyncFolder(folder);
}

std::string ConvertFromHuggingFace(const std::string& folder, const std::string& save_folder) {
  const spec::ModelSpec model = spec::LoadModel(folder + "/" + kHuggingFaceConfigName);
  const HuggingFaceReader reader(folder, model);
  return WriteWeightsCheckpoint(
      save_folder, model, "weights from Hugging Face's form",
      [&](const CheckpointParameter& parameter, std::span<float> elements) {
        reader.Read(parameter.name, WholeTensor(parameter.shape), elements.data());
      });
}

}  // namespace tessera::engine
