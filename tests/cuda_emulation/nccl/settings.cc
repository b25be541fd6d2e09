#include "tests/cuda_emulation/nccl/settings.h"

#include <cstdlib>
#include <mutex>
#include <string_view>
#include <vector>

#include "tests/cuda_emulation/runtime/stream_queue.h"

namespace tessera::cuda_emulation {
namespace {

struct Switches {
  std::mutex mutex;
  NcclSettings settings;
  std::vector<NcclFailure> failures;

  Switches() {
    const char* const value = std::getenv("TESSERA_NCCL_REDUCTION");
    if (value != nullptr && std::string_view(value) == "ring") {
      settings.reduction = NcclReduction::kRing;
    }
  }
};

Switches& TheSwitches() {
  static Switches switches;
  return switches;
}

}  // namespace

void SetNcclTimeout(double timeout_s) {
  const std::lock_guard lock(TheSwitches().mutex);
  TheSwitches().settings.timeout_s = timeout_s;
}

void SetNcclSharedDevices(bool allowed) {
  const std::lock_guard lock(TheSwitches().mutex);
  TheSwitches().settings.shared_devices = allowed;
}

void SetNcclReduction(NcclReduction reduction, uint64_t seed) {
  const std::lock_guard lock(TheSwitches().mutex);
  TheSwitches().settings.reduction = reduction;
  TheSwitches().settings.seed = seed;
}

void InjectNcclFailure(const NcclFailure& failure) {
  const std::lock_guard lock(TheSwitches().mutex);
  TheSwitches().failures.push_back(failure);
}

void ClearNcclFailures() {
  {
    const std::lock_guard lock(TheSwitches().mutex);
    TheSwitches().failures.clear();
  }
  NotifyProgress();
}

NcclSettings GetNcclSettings() {
  const std::lock_guard lock(TheSwitches().mutex);
  return TheSwitches().settings;
}

std::optional<NcclFailure> FindNcclFailure(const std::string& communicator, int rank,
                                           int64_t operation) {
  const std::lock_guard lock(TheSwitches().mutex);
  for (const NcclFailure& failure : TheSwitches().failures) {
    if (failure.communicator == communicator && failure.rank == rank &&
        operation >= failure.operation) {
      return failure;
    }
  }
  return std::nullopt;
}

}  // namespace tessera::cuda_emulation
