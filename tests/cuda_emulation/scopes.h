// Settings of the emulation for as long as a test has them, whichever way it ends.
#pragma once

#include <cstdint>
#include <functional>
#include <utility>

#include "tests/cuda_emulation/cublaslt/algorithm.h"
#include "tests/cuda_emulation/nccl/nccl_double.h"
#include "tests/cuda_emulation/runtime/device.h"
#include "tests/cuda_emulation/runtime/device_memory.h"
#include "tests/cuda_emulation/runtime/stream_queue.h"

namespace tessera::cuda_emulation {

// Calls a function when it goes.
class Scope {
 public:
  explicit Scope(std::function<void()> at_end) : at_end_(std::move(at_end)) {}
  ~Scope() { at_end_(); }
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

 private:
  const std::function<void()> at_end_;
};

[[nodiscard]] inline Scope WithStreamOrder(StreamOrder order, uint64_t seed = 0) {
  SetStreamOrder(order, seed);
  return Scope([] { SetStreamOrder(StreamOrder::kEager); });
}

[[nodiscard]] inline Scope WithWaitTimeout(double timeout_s) {
  SetWaitTimeout(timeout_s);
  return Scope([] { SetWaitTimeout(60); });
}

[[nodiscard]] inline Scope WithDeviceCount(int count) {
  const int before = GetDeviceCount();
  SetDeviceCount(count);
  return Scope([before] { SetDeviceCount(before); });
}

[[nodiscard]] inline Scope WithDeviceMemoryLimit(int64_t total_bytes) {
  const int64_t before = DeviceMemoryLimit();
  SetDeviceMemoryLimit(total_bytes);
  return Scope([before] { SetDeviceMemoryLimit(before); });
}

[[nodiscard]] inline Scope WithMultiprocessors(int count) {
  SetNumMultiprocessors(count);
  return Scope([] { SetNumMultiprocessors(4); });
}

[[nodiscard]] inline Scope WithNcclTimeout(double timeout_s) {
  SetNcclTimeout(timeout_s);
  return Scope([] { SetNcclTimeout(60); });
}

[[nodiscard]] inline Scope WithNcclSharedDevices() {
  SetNcclSharedDevices(true);
  return Scope([] { SetNcclSharedDevices(false); });
}

[[nodiscard]] inline Scope WithNcclReduction(NcclReduction reduction) {
  SetNcclReduction(reduction);
  return Scope([] { SetNcclReduction(NcclReduction::kAscending); });
}

[[nodiscard]] inline Scope WithNcclFailure(const NcclFailure& failure) {
  InjectNcclFailure(failure);
  return Scope([] { ClearNcclFailures(); });
}

[[nodiscard]] inline Scope WithAlgorithm(cublaslt::AlgorithmKind kind) {
  cublaslt::PreferAlgorithm(kind);
  return Scope([] { cublaslt::PreferAlgorithm(cublaslt::AlgorithmKind::kVector); });
}

}  // namespace tessera::cuda_emulation
