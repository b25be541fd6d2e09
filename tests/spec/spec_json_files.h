// Helpers of the tests that read and write files.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "cost_model/base/error.h"

namespace tessera::spec {

// Files in a folder of this test's own, gone at its end.
class FileTest : public ::testing::Test {
 protected:
  FileTest() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    folder_ = std::filesystem::path(::testing::TempDir()) /
              (std::string("tessera_") + test->test_suite_name() + "_" + test->name());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
  }
  ~FileTest() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  std::string Write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = folder_ / name;
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path, std::ios::binary) << text;
    return path.string();
  }

 private:
  std::filesystem::path folder_;
};

// The message of the ConfigError that `action` throws, "" when it throws none.
template <typename Action>
std::string ConfigErrorOf(const Action& action) {
  try {
    action();
  } catch (const base::ConfigError& error) {
    return error.what();
  }
  return "";
}

// `text` with the first `from` replaced; fails the test when there is none.
inline std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  const std::size_t place = text.find(from);
  EXPECT_NE(place, std::string::npos) << from;
  return place == std::string::npos ? text : text.replace(place, from.size(), to);
}

}  // namespace tessera::spec
