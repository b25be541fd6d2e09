#include "tests/fuzz/fuzz_target.h"

#include <memory>
#include <utility>

#include "cost_model/base/error.h"
#include "tests/engine/data_test_files.h"

namespace tessera::fuzz {

std::function<std::string(std::string_view)> RefusalOf(std::function<void(std::string_view)> read) {
  return [read = std::move(read)](std::string_view bytes) -> std::string {
    try {
      read(bytes);
      return "";
    } catch (const base::ConfigError& error) {
      return error.what();
    } catch (const base::InfeasibleError& error) {
      return error.what();
    }
  };
}

FuzzTarget FileTarget(const std::string& name, const std::string& ending,
                      void (*read)(const std::string& path), std::vector<std::string> seeds) {
  const auto folder = std::make_shared<engine::test::TestFolder>();
  return {name,
          RefusalOf([=](std::string_view bytes) { read(folder->Write("input" + ending, bytes)); }),
          std::move(seeds)};
}

std::vector<FuzzTarget> AllTargets() {
  std::vector<FuzzTarget> all;
  for (const auto& make :
       {ConfigTargets, DataTargets, CheckpointTargets, TextTargets, ReportTargets}) {
    for (FuzzTarget& target : make()) all.push_back(std::move(target));
  }
  return all;
}

}  // namespace tessera::fuzz
