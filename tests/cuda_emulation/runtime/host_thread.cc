#include "tests/cuda_emulation/runtime/host_thread.h"

#include <atomic>

namespace tessera::cuda_emulation {

uint64_t CurrentHostThread() {
  static std::atomic<uint64_t> num_threads{0};
  thread_local const uint64_t number = ++num_threads;
  return number;
}

}  // namespace tessera::cuda_emulation
