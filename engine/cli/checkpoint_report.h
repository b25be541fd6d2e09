// What `tessera checkpoint` finds and prints.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cost_model/spec/model_spec.h"
#include "engine/optimizer/train_state.h"

namespace tessera::engine {

struct TensorSummary {
  std::string name;
  std::string type;  // "F32"
  std::vector<int64_t> shape;
};

// A native checkpoint, or a model in Hugging Face's form.
struct CheckpointSummary {
  std::string path;
  // Of a native checkpoint.
  struct Training {
    TrainProgress progress;
    uint64_t seed = 0;
    std::string text;
    bool has_optimizer_state = false;
  };
  std::optional<Training> training;
  std::optional<spec::ModelSpec> model;  // absent without a config.json
  std::vector<TensorSummary> tensors;    // weights, global shapes
  int64_t num_elements = 0;              // of them
  int64_t num_files = 0;                 // with data
  int64_t data_bytes = 0;                // size of these files
};

// `path`: a checkpoint, a save folder (its newest is taken), a folder in Hugging Face's form, or a
// .safetensors file. Throws base::ConfigError when it is none or broken.
CheckpointSummary SummarizeCheckpoint(const std::string& path);

struct Verification {
  std::string path;
  int64_t num_files = 0;
  int64_t num_tensors = 0;  // pieces of a native checkpoint
  int64_t data_bytes = 0;
  bool has_checksums = false;  // whether every byte was checked
  std::vector<std::string> problems;
};

// Throws base::ConfigError for what keeps the rest from being checked.
Verification VerifyCheckpoint(const std::string& path);

void PrintSummary(const CheckpointSummary& summary, bool list_tensors, bool as_json);
void PrintVerification(const Verification& result, bool as_json);

}  // namespace tessera::engine
