// Finds out what a name or a file is, and reads it.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cost_model/base/error.h"
#include "cost_model/spec/field_reader_json.h"
#include "cost_model/spec/import_json.h"
#include "cost_model/spec/plan_json.h"
#include "cost_model/spec/spec_fields.h"
#include "cost_model/spec/spec_json.h"
#include "cost_model/spec/strict_json.h"

namespace tessera::spec {
namespace {

namespace fs = std::filesystem;
using base::Concat;
using base::ConfigError;
using nlohmann::json;

// A preset comes before a file of the same name; "./name" is the file.
std::string Resolve(const std::string& kind, const std::string& what,
                    const std::string& name_or_path) {
  const std::string preset = PresetPath(kind, name_or_path);
  if (!preset.empty()) return preset;
  if (fs::is_directory(name_or_path)) return (fs::path(name_or_path) / "config.json").string();
  if (fs::exists(name_or_path)) return name_or_path;
  const std::string nearest = NearestName(name_or_path, ListPresets(kind));
  throw ConfigError(what, "", '"' + name_or_path + '"',
                    Concat("a file or the name of a preset",
                           nearest.empty() ? "" : Concat(" such as \"", nearest, '"'),
                           " (`tessera config list` shows them)"));
}

bool HasAnyOf(const json& document, std::initializer_list<const char*> keys) {
  for (const char* key : keys) {
    if (document.contains(key)) return true;
  }
  return false;
}

enum class ModelFormat { kOwn, kHuggingFace, kMegatron };

// By keys that only one format has.
ModelFormat FormatOf(const json& document, const std::string& file) {
  if (!document.is_object()) throw ConfigError(file, "", DescribeJson(document), "an object");
  if (document.contains("format_version")) {
    throw ConfigError(file, "", "a plan", "the description of a model");
  }
  if (HasAnyOf(document, {"model_type", "architectures", "n_embd", "num_hidden_layers",
                          "hidden_act", "intermediate_size"})) {
    return ModelFormat::kHuggingFace;
  }
  if (HasAnyOf(document, {"norm", "position", "activation", "num_key_value_heads", "head_dim",
                          "max_sequence_length", "qkv_bias", "mlp_bias", "tied_embeddings"})) {
    return ModelFormat::kOwn;
  }
  return ModelFormat::kMegatron;
}

bool IsYaml(const std::string& path) {
  const std::string extension = fs::path(path).extension().string();
  return extension == ".yaml" || extension == ".yml";
}

}  // namespace

ModelSpec LoadModel(const std::string& name_or_path, TrainingSpec* training, ParallelSpec* parallel,
                    std::vector<std::string>* keys_set) {
  const std::string path = Resolve("models", "model", name_or_path);
  const std::string text = ReadTextFile(path);
  const bool is_command_line = LooksLikeArguments(text);
  const json document = is_command_line ? ParseArguments(text, path)
                        : IsYaml(path)  ? ParseYaml(text, path)
                                        : ParseJson(text, path);
  switch (FormatOf(document, path)) {
    case ModelFormat::kOwn:
      return ModelFromJson(document, path);
    case ModelFormat::kHuggingFace:
      return ModelFromHuggingFace(document, path, training);
    case ModelFormat::kMegatron:
      break;
  }
  return ModelFromMegatron(document, path, is_command_line, training, parallel, keys_set);
}

ClusterSpec LoadCluster(const std::string& name_or_path) {
  const std::string path = Resolve("clusters", "cluster", name_or_path);
  return ClusterFromJson(ReadJsonFile(path), path);
}

RuntimeSpec LoadRuntime(const std::string& name_or_path) {
  const std::string file = Resolve("runtimes", "runtime", name_or_path);
  RuntimeSpec runtime;
  FieldReader::Read(ReadJsonFile(file), file,
                    [&](FieldVisitor& fields) { VisitRuntime(fields, runtime); });
  return runtime;
}

void LoadHyperparameters(const std::string& path, TrainingSpec& training) {
  const std::string file = Resolve("training", "hyper-parameters", path);
  TrainingSpec read = training;  // untouched when the file is wrong
  FieldReader::Read(ReadJsonFile(file), file,
                    [&](FieldVisitor& fields) { VisitHyperparameters(fields, read); });
  training = read;
}

}  // namespace tessera::spec
