#include "engine/checkpoint/hugging_face.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <span>

#include "cost_model/base/error.h"
#include "engine/checkpoint/state_parts.h"

namespace tessera::engine {
namespace {

using base::Concat;
using base::ConfigError;

constexpr const char* kEmbeddingName = "embedding.word.weight";

// Index range of a matrix (a vector is one column).
struct Block {
  int64_t row_begin = 0, num_rows = 0;
  int64_t column_begin = 0, num_columns = 0;
  int64_t output_stride = 0;  // elements between rows of the output
};

Block BlockOf(const std::vector<int64_t>& shape, const TensorPart& slice) {
  const int64_t columns = shape.size() > 1 ? shape[1] : 1;
  if (slice.dim == 0) return {slice.begin, slice.size, 0, columns, columns};
  return {0, shape[0], slice.begin, slice.size, slice.stored_size};
}

// The block of a matrix stored as [rows, columns] of `row_width` elements.
void ReadRows(const TensorView& view, int64_t row_width, const Block& block, float* output) {
  if (block.num_columns == row_width && block.output_stride == row_width) {
    ReadFloats(view, block.row_begin * row_width, block.num_rows * row_width, output);
    return;
  }
  for (int64_t row = 0; row < block.num_rows; ++row) {
    ReadFloats(view, (block.row_begin + row) * row_width + block.column_begin, block.num_columns,
               output + row * block.output_stride);
  }
}

// The block of a matrix stored as its transpose, [columns, rows], a row of it `row_width` wide.
void ReadTransposed(const TensorView& view, int64_t row_width, const Block& block, float* output) {
  // Tiles keep both sides in the cache; each is a few KiB.
  constexpr int64_t kTile = 32;
  float tile[kTile * kTile];
  for (int64_t c = 0; c < block.num_columns; c += kTile) {
    const int64_t columns = std::min(kTile, block.num_columns - c);
    for (int64_t r = 0; r < block.num_rows; r += kTile) {
      const int64_t rows = std::min(kTile, block.num_rows - r);
      for (int64_t j = 0; j < columns; ++j) {
        ReadFloats(view, (block.column_begin + c + j) * row_width + block.row_begin + r, rows,
                   tile + j * kTile);
      }
      for (int64_t i = 0; i < rows; ++i) {
        float* const out = output + (r + i) * block.output_stride + c;
        for (int64_t j = 0; j < columns; ++j) out[j] = tile[j * kTile + i];
      }
    }
  }
}

// "a, b, c and 4 more"
std::string ListText(const std::vector<std::string>& names) {
  constexpr size_t kMaxNames = 4;
  std::string text;
  for (size_t i = 0; i < std::min(kMaxNames, names.size()); ++i) {
    text += (i == 0 ? "" : ", ") + PrintableName(names[i]);
  }
  if (names.size() > kMaxNames) text += Concat(" and ", names.size() - kMaxNames, " more");
  return text;
}

// What is wrong with the tensors of a folder, by kind.
struct Mismatch {
  std::vector<std::string> missing, unknown, wrong;

  void ThrowIfAny(const std::string& folder) const {
    std::string found;
    const auto add = [&](const char* what, const std::vector<std::string>& names) {
      if (names.empty()) return;
      found += Concat(found.empty() ? "" : "; ", what, " ", ListText(names));
    };
    add("missing:", missing);
    add("unknown:", unknown);
    add("of another shape or type:", wrong);
    if (!found.empty()) {
      throw ConfigError(folder, "tensors", found, "those of the model in its config.json");
    }
  }
};

// Whether the file's names carry the family's prefix.
bool HasPrefix(const SafetensorsSet& set, const std::string& prefix) {
  const auto at_or_after = set.tensors().lower_bound(prefix);
  return at_or_after != set.tensors().end() && at_or_after->first.starts_with(prefix);
}

std::string WrongText(const SafetensorsTensor& found, const std::vector<int64_t>& shape) {
  return Concat(found.name, " ", ToString(found.type), " ", ShapeText(found.shape), " for ",
                ShapeText(shape));
}

}  // namespace

HuggingFaceReader::HuggingFaceReader(const std::string& folder, const spec::ModelSpec& model)
    : folder_(folder), set_(folder) {
  const std::string prefix = HuggingFacePrefix(HuggingFaceFamilyOf(model));
  const bool has_prefix = HasPrefix(set_, prefix);
  Mismatch mismatch;
  std::set<std::string> known;
  for (const HuggingFaceTensor& tensor : HuggingFaceTensors(model)) {
    const bool strip = !has_prefix && tensor.name.starts_with(prefix);
    const std::string name = strip ? tensor.name.substr(prefix.size()) : tensor.name;
    known.insert(name);
    const TensorView* const view = set_.Find(name);
    if (view == nullptr) {
      mismatch.missing.push_back(name);
    } else if (view->tensor->shape != tensor.shape || !IsFloatType(view->tensor->type)) {
      mismatch.wrong.push_back(WrongText(*view->tensor, tensor.shape));
    } else {
      AddSources(tensor, *view);
    }
  }
  for (const auto& [name, view] : set_.tensors()) {
    if (known.contains(name) || IsHuggingFaceBuffer(name)) continue;
    if (!model.tied_embeddings || name != kHuggingFaceHeadName) {
      mismatch.unknown.push_back(name);
      continue;
    }
    const std::vector<int64_t> shape = {model.vocab_size, model.hidden_size};
    if (view.tensor->shape != shape || !IsFloatType(view.tensor->type)) {
      mismatch.wrong.push_back(WrongText(*view.tensor, shape));
    }
    tied_head_ = &view;
  }
  mismatch.ThrowIfAny(folder);
}

void HuggingFaceReader::AddSources(const HuggingFaceTensor& tensor, const TensorView& view) {
  int64_t first_row = 0;
  for (const spec::ParameterSpec& part : tensor.parts) {
    sources_[part.name] = {.view = view,
                           .transposed = tensor.transposed,
                           .first_row = first_row,
                           .shape = part.global_shape};
    first_row += part.global_shape[0];
  }
}

void HuggingFaceReader::Read(const std::string& parameter, const TensorPart& slice,
                             float* output) const {
  const auto found = sources_.find(parameter);
  TESSERA_CHECK(found != sources_.end(), parameter, " is no parameter of the model");
  const Source& source = found->second;
  Block block = BlockOf(source.shape, slice);
  block.row_begin += source.first_row;
  const std::vector<int64_t>& stored_shape = source.view.tensor->shape;
  const int64_t row_width = stored_shape.size() > 1 ? stored_shape[1] : 1;
  if (source.transposed) {
    ReadTransposed(source.view, row_width, block, output);
  } else {
    ReadRows(source.view, row_width, block, output);
  }
  if (tied_head_ != nullptr && parameter == kEmbeddingName) CompareTiedHead(slice, output);
}

void HuggingFaceReader::CheckTiedHead() const {
  if (tied_head_ == nullptr) return;
  const TensorPart whole = WholeTensor(tied_head_->tensor->shape);
  std::vector<float> embedding(static_cast<size_t>(whole.count));
  Read(kEmbeddingName, whole, embedding.data());
}

void HuggingFaceReader::CompareTiedHead(const TensorPart& slice, const float* embedding) const {
  const int64_t width = tied_head_->tensor->shape[1];
  std::vector<float> row(static_cast<size_t>(width));
  for (int64_t i = 0; i < slice.size; ++i) {
    ReadFloats(*tied_head_, (slice.begin + i) * width, width, row.data());
    if (std::memcmp(row.data(), embedding + i * width, row.size() * sizeof(float)) != 0) {
      throw ConfigError(folder_, Concat("tensor '", kHuggingFaceHeadName, "'"),
                        Concat("row ", slice.begin + i, " unlike the embedding's"),
                        "equal rows, as tie_word_embeddings in config.json says");
    }
  }
}

void LoadHuggingFaceWeights(const std::string& folder, const spec::ModelSpec& model,
                            TrainState& state) {
  const HuggingFaceReader reader(folder, model);
  std::fill_n(state.weights, NumWeights(state), 0.0f);
  std::vector<float> whole;
  for (const StatePart& part : WeightParts(state)) {
    const spec::ParameterSpec& parameter = state.parameters[part.parameter];
    TensorPart slice = part.part;
    slice.first = 0;
    slice.count = state.slices[part.parameter].num_elements;
    if (slice == part.part) {
      reader.Read(parameter.name, slice, part.data);
      continue;
    }
    whole.assign(static_cast<size_t>(slice.count), 0.0f);
    reader.Read(parameter.name, slice, whole.data());
    std::copy_n(whole.begin() + part.part.first, part.part.count, part.data);
  }
}

}  // namespace tessera::engine
