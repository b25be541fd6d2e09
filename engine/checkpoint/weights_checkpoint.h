// Native checkpoints made of another program's weights.
#pragma once

#include <functional>
#include <span>
#include <string>

#include "cost_model/spec/model_spec.h"
#include "engine/checkpoint/manifest.h"

namespace tessera::engine {

// Fills all elements of a parameter.
using ReadParameterFunction =
    std::function<void(const CheckpointParameter& parameter, std::span<float> elements)>;

// Writes a checkpoint of step 0 without optimizer state and returns its path. `origin`: one line
// for people. Throws base::SystemError for the disk, and what `read` throws; then nothing stays.
std::string WriteWeightsCheckpoint(const std::string& save_folder, const spec::ModelSpec& model,
                                   const std::string& origin, const ReadParameterFunction& read);

}  // namespace tessera::engine
