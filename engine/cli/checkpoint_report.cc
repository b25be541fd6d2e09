#include "engine/cli/checkpoint_report.h"

#include <iostream>
#include <nlohmann/json.hpp>
#include <string_view>

#include "cost_model/base/check.h"
#include "cost_model/spec/spec_json.h"
#include "engine/checkpoint/checkpoint_folder.h"
#include "engine/checkpoint/checkpoint_reader.h"
#include "engine/checkpoint/hugging_face.h"
#include "engine/cli/text_rows.h"

namespace tessera::engine {
namespace {

using Json = nlohmann::ordered_json;

bool IsNative(const std::string& path) {
  return PathExists(path + "/" + kManifestFileName) || !NewestCheckpoint(path).empty();
}

std::optional<spec::ModelSpec> ModelOf(const std::string& folder) {
  const std::string config = folder + "/" + kHuggingFaceConfigName;
  if (!PathExists(config)) return std::nullopt;
  return spec::LoadModel(config);
}

void AddTensor(TensorSummary tensor, CheckpointSummary& summary) {
  summary.num_elements += CheckedNumElements(tensor.shape).value_or(0);
  summary.tensors.push_back(std::move(tensor));
}

CheckpointSummary SummarizeNative(const std::string& path) {
  const CheckpointReader reader(path);
  const Manifest& manifest = reader.manifest();
  CheckpointSummary summary;
  summary.path = reader.folder();
  summary.training = {.progress = manifest.progress,
                      .seed = manifest.seed,
                      .text = manifest.training,
                      .has_optimizer_state = manifest.HasOptimizerState()};
  summary.model = reader.model();
  for (const CheckpointParameter& parameter : manifest.parameters) {
    AddTensor({parameter.name, std::string(ToString(SafetensorsType::kF32)), parameter.shape},
              summary);
  }
  summary.num_files = static_cast<int64_t>(manifest.files.size());
  for (const CheckpointFile& file : manifest.files) summary.data_bytes += file.size_bytes;
  return summary;
}

CheckpointSummary SummarizeSafetensors(const std::string& path) {
  const SafetensorsSet set(path);
  CheckpointSummary summary;
  summary.path = path;
  summary.model = ModelOf(path);
  for (const auto& [name, view] : set.tensors()) {
    AddTensor({name, std::string(ToString(view.tensor->type)), view.tensor->shape}, summary);
  }
  summary.num_files = static_cast<int64_t>(set.files().size());
  for (const auto& file : set.files()) {
    summary.data_bytes += static_cast<int64_t>(file->file_bytes().size());
  }
  return summary;
}

std::string ModelText(const spec::ModelSpec& model) {
  return base::Concat(model.name, model.name.empty() ? "" : ", ", model.num_layers,
                      " layers, hidden size ", model.hidden_size, ", ", model.num_attention_heads,
                      " heads (", model.num_key_value_heads, " of keys and values), vocabulary ",
                      model.vocab_size);
}

Json ToJson(const CheckpointSummary& summary) {
  Json document = {{"path", summary.path}, {"form", summary.training ? "native" : "huggingface"}};
  if (summary.training) {
    const TrainProgress& progress = summary.training->progress;
    document["step"] = progress.step;
    document["num_skipped_steps"] = progress.num_skipped_steps;
    document["consumed_samples"] = progress.consumed_samples;
    document["loss_scale"] = progress.loss_scale.value;
    document["seed"] = summary.training->seed;
    document["training"] = summary.training->text;
    document["has_optimizer_state"] = summary.training->has_optimizer_state;
  }
  if (summary.model) document["model"] = Json::parse(spec::WriteModel(*summary.model));
  document["num_parameters"] = summary.num_elements;
  document["num_files"] = summary.num_files;
  document["data_bytes"] = summary.data_bytes;
  document["tensors"] = Json::array();
  for (const TensorSummary& tensor : summary.tensors) {
    document["tensors"].push_back(
        Json{{"name", tensor.name}, {"type", tensor.type}, {"shape", tensor.shape}});
  }
  return document;
}

}  // namespace

CheckpointSummary SummarizeCheckpoint(const std::string& path) {
  return IsNative(path) ? SummarizeNative(path) : SummarizeSafetensors(path);
}

Verification VerifyCheckpoint(const std::string& path) {
  Verification result;
  if (IsNative(path)) {
    CheckpointReader reader(path);
    result.path = reader.folder();
    result.num_files = static_cast<int64_t>(reader.manifest().files.size());
    result.num_tensors = static_cast<int64_t>(reader.manifest().pieces.size());
    for (const CheckpointFile& file : reader.manifest().files) result.data_bytes += file.size_bytes;
    result.has_checksums = true;
    result.problems = reader.FindDamage();
    return result;
  }
  const CheckpointSummary summary = SummarizeSafetensors(path);
  if (summary.model) HuggingFaceReader(path, *summary.model).CheckTiedHead();
  result.path = path;
  result.num_files = summary.num_files;
  result.num_tensors = static_cast<int64_t>(summary.tensors.size());
  result.data_bytes = summary.data_bytes;
  return result;
}

void PrintSummary(const CheckpointSummary& summary, bool list_tensors, bool as_json) {
  if (as_json) {
    std::cout << ToJson(summary).dump(2) << '\n';
    return;
  }
  PrintNamed(std::cout, "path", summary.path);
  PrintNamed(std::cout, "form",
             summary.training ? "native checkpoint" : "Hugging Face safetensors");
  if (summary.training) {
    const TrainProgress& progress = summary.training->progress;
    PrintNamed(std::cout, "step", progress.step);
    if (progress.num_skipped_steps > 0)
      PrintNamed(std::cout, "skipped steps", progress.num_skipped_steps);
    PrintNamed(std::cout, "consumed samples", progress.consumed_samples);
    if (progress.loss_scale.value > 0)
      PrintNamed(std::cout, "loss scale", progress.loss_scale.value);
    PrintNamed(std::cout, "seed", summary.training->seed);
    if (!summary.training->text.empty()) PrintNamed(std::cout, "training", summary.training->text);
    PrintNamed(std::cout, "optimizer state", summary.training->has_optimizer_state ? "yes" : "no");
  }
  if (summary.model) PrintNamed(std::cout, "model", ModelText(*summary.model));
  PrintNamed(std::cout, "parameters",
             base::Concat(summary.num_elements, " in ", summary.tensors.size(), " tensors"));
  PrintNamed(std::cout, "data",
             base::Concat(summary.data_bytes, " bytes in ", summary.num_files,
                          summary.num_files == 1 ? " file" : " files"));
  if (!list_tensors) return;
  for (const TensorSummary& tensor : summary.tensors) {
    std::cout << "  " << PrintableName(tensor.name) << "  " << tensor.type << ' '
              << ShapeText(tensor.shape) << '\n';
  }
}

void PrintVerification(const Verification& result, bool as_json) {
  if (as_json) {
    const Json document = {{"path", result.path},
                           {"ok", result.problems.empty()},
                           {"num_files", result.num_files},
                           {"num_tensors", result.num_tensors},
                           {"data_bytes", result.data_bytes},
                           {"has_checksums", result.has_checksums},
                           {"problems", result.problems}};
    std::cout << document.dump(2) << '\n';
    return;
  }
  for (const std::string& problem : result.problems) {
    std::cerr << "tessera: error: " << problem << '\n';
  }
  if (!result.problems.empty()) return;
  std::cout << result.path << ": good: " << result.num_tensors << " tensors, " << result.data_bytes
            << " bytes in " << result.num_files << (result.num_files == 1 ? " file" : " files")
            << (result.has_checksums ? ", checksums match" : ", headers and shapes match") << '\n';
}

}  // namespace tessera::engine
