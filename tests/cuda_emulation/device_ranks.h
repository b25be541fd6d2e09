// Ranks on emulated GPUs, one thread each, and bytes in their device memory.
#pragma once

#include <functional>
#include <string>

#include "cost_model/base/error.h"
#include "engine/comm/thread_world.h"
#include "engine/device/rank_device.h"
#include "tests/cuda_emulation/scopes.h"
#include "tests/testing/typed_data.h"

namespace tessera::engine::testing {

using cuda_emulation::Scope;
using cuda_emulation::WithStreamOrder;
using tessera::testing::Bytes;

inline constexpr double kPatienceSeconds = 60;

// Runs `body` once per rank, on a device of its own; what a rank throws comes out here.
inline void RunDeviceRanks(
    int num_ranks, CommKind comm, double timeout_s,
    const std::function<void(RankDevice& device, Communicator& host_world)>& body) {
  RunThreadRanks(num_ranks, {.timeout_s = kPatienceSeconds}, [&](Communicator& host_world) {
    const auto device = MakeRankDevice(
        {.device = DeviceKind::kCuda, .comm = comm, .timeout_s = timeout_s}, host_world);
    body(*device, host_world);
  });
}

// The message of the base::CommError with which the run fails; "no failure" if it does not.
inline std::string DeviceFailureOf(
    int num_ranks, CommKind comm, double timeout_s,
    const std::function<void(RankDevice& device, Communicator& host_world)>& body) {
  try {
    RunDeviceRanks(num_ranks, comm, timeout_s, body);
  } catch (const base::CommError& error) {
    return error.what();
  }
  return "no failure";
}

// Device memory with given bytes.
class OnDevice {
 public:
  OnDevice(kernels::Backend& backend, const Bytes& bytes)
      : backend_(backend), size_(bytes.size()), memory_(backend.Allocate(size_)) {
    backend_.CopyToDevice(memory_, bytes.data(), size_);
  }
  // Bytes that nobody has written.
  OnDevice(kernels::Backend& backend, size_t size)
      : backend_(backend), size_(size), memory_(backend.Allocate(size)) {}
  ~OnDevice() { backend_.Free(memory_, size_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  std::byte* data() const { return static_cast<std::byte*>(memory_); }
  float* floats() const { return static_cast<float*>(memory_); }
  Bytes Get() const {
    Bytes bytes(size_);
    backend_.CopyToHost(bytes.data(), memory_, size_);
    return bytes;
  }

 private:
  kernels::Backend& backend_;
  size_t size_;
  void* memory_;
};

}  // namespace tessera::engine::testing
