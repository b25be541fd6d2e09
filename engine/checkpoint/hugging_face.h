// Models in Hugging Face's form: a folder with config.json and safetensors files.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cost_model/spec/model_spec.h"
#include "engine/checkpoint/hugging_face_names.h"
#include "engine/checkpoint/safetensors.h"
#include "engine/checkpoint/safetensors_writer.h"
#include "engine/checkpoint/tensor_part.h"
#include "engine/optimizer/train_state.h"

namespace tessera::engine {

// The weights in a folder, by our names and in our layout.
class HuggingFaceReader {
 public:
  // Throws base::ConfigError, listing them, when tensors are missing, unknown or of another shape
  // or type than the model's. The family's prefix may be absent, buffers are passed over, and a
  // tied head may be stored again.
  HuggingFaceReader(const std::string& folder, const spec::ModelSpec& model);

  // Reads a whole slice (all of its stored elements), as fp32; padding stays as it is. Throws
  // base::ConfigError when a tied head is stored whose rows differ from the embedding's.
  void Read(const std::string& parameter, const TensorPart& slice, float* output) const;
  // Throws as Read does, for any row.
  void CheckTiedHead() const;

 private:
  struct Source {
    TensorView view;
    bool transposed = false;
    int64_t first_row = 0;  // of this parameter in the stacked tensor
    std::vector<int64_t> shape;
  };

  void AddSources(const HuggingFaceTensor& tensor, const TensorView& view);
  void CompareTiedHead(const TensorPart& slice, const float* embedding) const;

  std::string folder_;
  SafetensorsSet set_;
  std::map<std::string, Source> sources_;  // by our name
  const TensorView* tied_head_ = nullptr;  // where it is stored though tied
};

// Fills all weights of one rank, reading only the slices that it holds; padding becomes zero.
// Moments, step and position in the data are not touched. Throws as HuggingFaceReader does.
void LoadHuggingFaceWeights(const std::string& folder, const spec::ModelSpec& model,
                            TrainState& state);

// Writes the weights of a native checkpoint as `folder`/config.json and model.safetensors (shards
// and an index above `max_shard_bytes`). Throws base::ConfigError for a damaged checkpoint or a
// model of no known family, base::SystemError for the disk.
void ConvertToHuggingFace(const std::string& checkpoint, const std::string& folder,
                          int64_t max_shard_bytes = kDefaultMaxShardBytes);

// Writes a native checkpoint of weights alone, step 0, into `save_folder`; the model is that of
// the folder's config.json. Returns the checkpoint's path. One parameter at a time is in memory.
std::string ConvertFromHuggingFace(const std::string& folder, const std::string& save_folder);

}  // namespace tessera::engine
