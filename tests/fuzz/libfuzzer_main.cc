// libFuzzer's entry, for the target that TESSERA_FUZZ_TARGET names; without it the names of all are
// printed. scripts/fuzz.sh builds and runs it.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/fuzz/fuzz_target.h"

namespace {

// Writes a target's seeds into the folder TESSERA_FUZZ_SEEDS, where it is set.
void WriteSeeds(const tessera::fuzz::FuzzTarget& target) {
  const char* const folder = std::getenv("TESSERA_FUZZ_SEEDS");
  if (folder == nullptr) return;
  std::filesystem::create_directories(folder);
  for (size_t i = 0; i < target.seeds.size(); ++i) {
    std::ofstream(std::filesystem::path(folder) / ("seed" + std::to_string(i)), std::ios::binary)
        << target.seeds[i];
  }
}

// Once, before libFuzzer takes over what happens at the end of the program.
const tessera::fuzz::FuzzTarget& Target() {
  static const tessera::fuzz::FuzzTarget chosen = [] {
    const char* const wanted = std::getenv("TESSERA_FUZZ_TARGET");
    for (tessera::fuzz::FuzzTarget& target : tessera::fuzz::AllTargets()) {
      if (wanted == nullptr) {
        std::puts(target.name.c_str());
      } else if (target.name == wanted) {
        WriteSeeds(target);
        return target;
      }
    }
    if (wanted != nullptr) std::fprintf(stderr, "no fuzz target %s\n", wanted);
    std::exit(wanted == nullptr ? 0 : 2);
  }();
  return chosen;
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  Target();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Target().refusal({reinterpret_cast<const char*>(data), size});
  return 0;
}
