#include "tests/fuzz/fuzz_target.h"

#include <utility>

#include "cost_model/base/error.h"

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

std::vector<FuzzTarget> AllTargets() {
  std::vector<FuzzTarget> all;
  for (const auto& make : {ConfigTargets, DataTargets, CheckpointTargets, TextTargets}) {
    for (FuzzTarget& target : make()) all.push_back(std::move(target));
  }
  return all;
}

}  // namespace tessera::fuzz
