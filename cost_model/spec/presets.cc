// Where presets lie.
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <system_error>
#include <vector>

#include "cost_model/spec/spec_json.h"

namespace tessera::spec {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> ConfigFolders() {
  std::vector<fs::path> folders;
  if (const char* chosen = std::getenv("TESSERA_CONFIGS"); chosen != nullptr && *chosen != '\0') {
    folders.emplace_back(chosen);
  }
  folders.emplace_back(TESSERA_SOURCE_CONFIGS);
  std::error_code error;
  const fs::path binary = fs::read_symlink("/proc/self/exe", error);
  if (!error) {
    folders.push_back(binary.parent_path().parent_path() / "share" / "tessera" / "configs");
  }
  return folders;
}

}  // namespace

std::vector<std::string> ListPresets(const std::string& kind) {
  std::set<std::string> names;
  for (const fs::path& folder : ConfigFolders()) {
    std::error_code error;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder / kind, error)) {
      if (entry.path().extension() == ".json") names.insert(entry.path().stem().string());
    }
  }
  return {names.begin(), names.end()};
}

std::string PresetPath(const std::string& kind, const std::string& name) {
  if (name.empty() || name.find('/') != std::string::npos) return "";
  for (const fs::path& folder : ConfigFolders()) {
    std::error_code error;
    const fs::path path = folder / kind / (name + ".json");
    if (fs::is_regular_file(path, error)) return path.string();
  }
  return "";
}

}  // namespace tessera::spec
