#include "tests/cuda_emulation/execution/settings.h"

#include <cstdlib>
#include <mutex>
#include <stdexcept>
#include <string>

namespace tessera::cuda_emulation {
namespace {

std::string Environment(const char* name, const char* otherwise) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : otherwise;
}

ExecutionSettings SettingsOfEnvironment() {
  ExecutionSettings settings;
  const std::string order = Environment("TESSERA_CUDA_THREAD_ORDER", "forward");
  if (order == "reverse") {
    settings.order = ThreadOrder::kReverse;
  } else if (order == "random") {
    settings.order = ThreadOrder::kRandom;
  } else if (order != "forward") {
    throw std::invalid_argument("TESSERA_CUDA_THREAD_ORDER: found " + order +
                                ", expected forward, reverse or random");
  }
  settings.seed = std::stoull(Environment("TESSERA_CUDA_SEED", "0"));
  settings.num_workers = std::stoi(Environment("TESSERA_CUDA_WORKERS", "1"));
  return settings;
}

struct Shared {
  std::mutex mutex;
  ExecutionSettings settings = SettingsOfEnvironment();
};

Shared& GetShared() {
  static Shared shared;
  return shared;
}

}  // namespace

ExecutionSettings GetExecutionSettings() {
  Shared& shared = GetShared();
  const std::lock_guard lock(shared.mutex);
  return shared.settings;
}

void SetExecutionSettings(const ExecutionSettings& settings) {
  Shared& shared = GetShared();
  const std::lock_guard lock(shared.mutex);
  shared.settings = settings;
}

}  // namespace tessera::cuda_emulation
