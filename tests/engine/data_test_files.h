// Small data files for the tests of engine/data.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>

#include "cost_model/base/error.h"

namespace tessera::engine::test {

// A folder that goes away with the object.
class TestFolder {
 public:
  TestFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "tessera_data_XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp of " + name);
    path_ = name;
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  std::string Path(const std::string& name) const { return (path_ / name).string(); }

  // Writes a file and returns its path.
  std::string Write(const std::string& name, std::string_view bytes) const {
    // A new file is much faster than a file cut to nothing: some systems sync the latter.
    std::filesystem::remove(path_ / name);
    std::ofstream file(path_ / name, std::ios::binary);
    file << bytes;
    return Path(name);
  }

  size_t NumFiles() const {
    size_t count = 0;
    for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator(path_)) ++count;
    return count;
  }

 private:
  std::filesystem::path path_;
};

inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

// The little-endian bytes of numbers of one type, one after the other.
template <typename T, typename... Values>
std::string Bytes(const Values&... values) {
  std::string out;
  const auto append = [&](T value) {
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof(T));
    out.append(bytes, sizeof(T));
  };
  (append(static_cast<T>(values)), ...);
  return out;
}

// The message of the ConfigError that `action` ends in; "no error" where it ends well.
template <typename Action>
std::string ConfigErrorOf(const Action& action) {
  try {
    action();
  } catch (const base::ConfigError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace tessera::engine::test
