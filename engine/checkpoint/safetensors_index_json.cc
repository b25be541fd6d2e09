#include <nlohmann/json.hpp>

#include "cost_model/base/error.h"
#include "cost_model/spec/strict_json.h"
#include "engine/checkpoint/file_io.h"
#include "engine/checkpoint/safetensors.h"

namespace tessera::engine {
namespace {

using base::Concat;
using base::ConfigError;
using JsonValue = nlohmann::json;

}  // namespace

std::map<std::string, std::string> ReadSafetensorsIndex(const std::string& path) {
  const JsonValue document =
      JsonValue::parse(ReadWholeFile(path), /*callback=*/nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded()) throw ConfigError(path, "", "broken JSON", "an index of shards");
  if (!document.is_object() || !document.contains("weight_map") ||
      !document["weight_map"].is_object() || document["weight_map"].empty()) {
    throw ConfigError(path, "/weight_map", "no names", "an object of tensor names and file names");
  }
  std::map<std::string, std::string> weight_map;
  for (const auto& [tensor, file] : document["weight_map"].items()) {
    if (!file.is_string() || !IsPlainFileName(file.get_ref<const std::string&>())) {
      throw ConfigError(path, Concat("/weight_map/", PrintableName(tensor)),
                        PrintableName(spec::DescribeJson(file)),
                        "the name of a file in the same folder");
    }
    weight_map.emplace(tensor, file.get<std::string>());
  }
  return weight_map;
}

std::string BuildSafetensorsIndex(const std::map<std::string, std::string>& weight_map,
                                  int64_t total_bytes) {
  const JsonValue document = {{"metadata", {{"total_size", total_bytes}}},
                              {"weight_map", weight_map}};
  return document.dump(2) + "\n";
}

}  // namespace tessera::engine
