// On a GPU the hardware decides in which order threads take turns: the settings are kept and do
// nothing, so that tests which try several orders run there as they are.
#include <mutex>

#include "tests/cuda_emulation/execution/settings.h"

namespace tessera::cuda_emulation {
namespace {

std::mutex mutex;
ExecutionSettings settings;

}  // namespace

ExecutionSettings GetExecutionSettings() {
  const std::lock_guard lock(mutex);
  return settings;
}

void SetExecutionSettings(const ExecutionSettings& wanted) {
  const std::lock_guard lock(mutex);
  settings = wanted;
}

}  // namespace tessera::cuda_emulation
