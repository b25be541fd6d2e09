// Model descriptions of other programs.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "cost_model/spec/parallel_spec.h"
#include "cost_model/spec/training_spec.h"

namespace tessera::spec {

// A Hugging Face config.json of model_type gpt2, llama, mistral, qwen2 or mixtral, with the
// defaults of the transformers library. Keys that do not change the mathematics are skipped; a
// value that asks for mathematics we do not have is a base::ConfigError. Dropout that it names goes
// into `training`, null for none.
ModelSpec ModelFromHuggingFace(const nlohmann::json& document, const std::string& file,
                               TrainingSpec* training);

// Megatron-LM arguments by their long names, flat or grouped in sections, with underscores or
// dashes. Absent ones take Megatron-LM's defaults for GPT; a vocabulary that is not given is
// GPT-2's 50257. Arguments that change neither mathematics nor layout are skipped; unknown ones
// and mathematics we do not have are a base::ConfigError. `is_command_line`: the document is a
// command line's text; if it is a run's whole one (--micro-batch-size is among its arguments),
// Megatron-LM's defaults hold for layout arguments that are absent. `training`, `parallel` and
// `keys_set` as in LoadModel; each may be null.
ModelSpec ModelFromMegatron(const nlohmann::json& document, const std::string& file,
                            bool is_command_line, TrainingSpec* training, ParallelSpec* parallel,
                            std::vector<std::string>* keys_set);

// A YAML mapping as JSON, plain scalars typed by YAML's core rules. Throws base::ConfigError with
// line and column for bad syntax, and for a repeated key.
nlohmann::json ParseYaml(const std::string& text, const std::string& file);

// Command-line arguments, one name after another ("--num-layers 96 --swiglu"): whether the text is
// of this kind, and its names with their values as JSON, true for a name without one. Throws
// base::ConfigError with the line.
bool LooksLikeArguments(const std::string& text);
nlohmann::json ParseArguments(const std::string& text, const std::string& file);

// The scalar as null, true, false, a number, or else a string (YAML's core rules).
nlohmann::json TypedScalar(const std::string& text);

}  // namespace tessera::spec
