// How kernels are executed: in which order, by how many threads.
#pragma once

#include <cstdint>

namespace tessera::cuda_emulation {

// The order in which the blocks of a grid, the warps of a block and the lanes of a warp take turns.
// Each runs until it must wait for others. A kernel that lacks a barrier gives other results, or
// reads poison, in at least one of them.
enum class ThreadOrder { kForward, kReverse, kRandom };

struct ExecutionSettings {
  ThreadOrder order = ThreadOrder::kForward;
  uint64_t seed = 0;    // of the random order
  int num_workers = 1;  // operating-system threads that share the blocks of a kernel
};

// The settings of kernels that start from now on, in all threads. At first those of the
// environment: TESSERA_CUDA_THREAD_ORDER=forward|reverse|random, TESSERA_CUDA_SEED=n,
// TESSERA_CUDA_WORKERS=n.
ExecutionSettings GetExecutionSettings();
void SetExecutionSettings(const ExecutionSettings& settings);

}  // namespace tessera::cuda_emulation
