// One kernel with its arguments, run to its end on the calling thread and its helpers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "tests/cuda_emulation/device/vector_types.h"

namespace tessera::cuda_emulation {

// A device's limits, as CUDA states them for compute capability 9.0.
constexpr unsigned kMaxThreadsPerBlock = 1024;
constexpr unsigned kMaxBlockDepth = 64;
constexpr unsigned kMaxGridWidth = 0x7fffffff;
constexpr unsigned kMaxGridHeight = 65535;  // and depth
constexpr size_t kDefaultSharedBytes = 48 * 1024;
constexpr size_t kMaxSharedBytes = 227 * 1024;

struct KernelLaunch {
  const void* function = nullptr;  // the kernel, for its name
  dim3 grid;
  dim3 block;
  size_t dynamic_bytes = 0;  // of shared memory
  // Calls the kernel with its arguments: what every thread runs.
  void (*call)(const void* arguments) = nullptr;
  const void* arguments = nullptr;

  int64_t num_blocks() const { return int64_t{1} * grid.x * grid.y * grid.z; }
  unsigned num_threads() const { return block.x * block.y * block.z; }
};

// Runs all blocks. Throws a Fault where the kernel is broken. REQUIRES: sizes within the limits.
void RunKernel(const KernelLaunch& launch);

}  // namespace tessera::cuda_emulation
