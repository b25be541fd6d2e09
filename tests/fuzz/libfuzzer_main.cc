// libFuzzer's entry, for the target that TESSERA_FUZZ_TARGET names. Without it the names of all are
// printed, and their seeds written into TESSERA_FUZZ_CORPUS/NAME. scripts/fuzz.sh builds and runs
// it.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "tests/fuzz/fuzz_target.h"

namespace {

void WriteSeeds(const tessera::fuzz::FuzzTarget& target, const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  for (size_t i = 0; i < target.seeds.size(); ++i) {
    std::ofstream(folder / ("seed" + std::to_string(i)), std::ios::binary) << target.seeds[i];
  }
}

[[noreturn]] void ListTargets() {
  const char* const corpus = std::getenv("TESSERA_FUZZ_CORPUS");
  for (const tessera::fuzz::FuzzTarget& target : tessera::fuzz::AllTargets()) {
    std::puts(target.name.c_str());
    if (corpus != nullptr) WriteSeeds(target, std::filesystem::path(corpus) / target.name);
  }
  std::exit(0);
}

tessera::fuzz::FuzzTarget FindTarget() {
  const char* const wanted = std::getenv("TESSERA_FUZZ_TARGET");
  if (wanted == nullptr) ListTargets();
  for (tessera::fuzz::FuzzTarget& target : tessera::fuzz::AllTargets()) {
    if (target.name == wanted) return target;
  }
  std::fprintf(stderr, "no fuzz target %s\n", wanted);
  std::exit(2);
}

const tessera::fuzz::FuzzTarget& Target() {
  static const tessera::fuzz::FuzzTarget chosen = FindTarget();
  return chosen;
}

}  // namespace

// Before libFuzzer takes over what happens at the end of the program.
extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  Target();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Target().refusal({reinterpret_cast<const char*>(data), size});
  return 0;
}
