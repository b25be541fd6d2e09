// Specs as JSON. Strict: an unknown, missing, repeated or ill-typed key is a base::ConfigError that
// names file and key. What Write makes, Read takes back unchanged.
#pragma once

#include <string>

#include "cost_model/spec/plan.h"
#include "cost_model/spec/runtime_spec.h"

namespace tessera::spec {

// Presets are looked up in these folders, in order: $TESSERA_CONFIGS, the source tree's configs/
// the build was made from, share/tessera/configs beside the binary's folder.
// kind: "models", "clusters", "training", "runtimes".
std::vector<std::string> ListPresets(const std::string& kind);
std::string PresetPath(const std::string& kind, const std::string& name);  // "" when unknown

// A preset's name, a file of ours, a Hugging Face config.json (or its folder), or Megatron-LM's
// arguments as JSON, YAML or plain text ("--num-layers 96 ..."). Megatron-style files may hold
// layout and training keys as well, a config.json dropout; those found go into `training` and
// `parallel` when not null, and names of the keys set into `keys_set`. The text of a run's whole
// command line sets every key of the layout: arguments that it lacks have Megatron-LM's defaults.
ModelSpec LoadModel(const std::string& name_or_path, TrainingSpec* training = nullptr,
                    ParallelSpec* parallel = nullptr, std::vector<std::string>* keys_set = nullptr);
// A preset's name or a file.
ClusterSpec LoadCluster(const std::string& name_or_path);
RuntimeSpec LoadRuntime(const std::string& name_or_path);
// Hyper-parameter file: keys steps, global_batch_size, batch_ramp {start_batch_size, increment,
// samples}, seq_length, seed, eod_token, eod_mask_loss, reset_position_ids, reset_attention_mask,
// hidden_dropout, attention_dropout, embedding_dropout and those of OptimizerSpec; all optional;
// those absent keep their value in `training`.
void LoadHyperparameters(const std::string& path, TrainingSpec& training);

std::string WriteModel(const ModelSpec& model);
std::string WriteCluster(const ClusterSpec& cluster);
// The config.json that Hugging Face's transformers reads for this model. Throws base::ConfigError
// for a model that no supported family describes.
std::string WriteHuggingFaceConfig(const ModelSpec& model);
// Whether a mixture of experts is of Mixtral's kind there: tokens go to experts alone, in every
// layer, by weights that sum to 1.
bool IsMixtral(const ModelSpec& model);

Plan ReadPlan(const std::string& path);
void WritePlanFile(const Plan& plan, const std::string& path);  // whole or not at all
std::string WritePlan(const Plan& plan);
// `indent` < 0: one line.
std::string WriteStepReport(const StepReport& report, int indent = 2);

}  // namespace tessera::spec
