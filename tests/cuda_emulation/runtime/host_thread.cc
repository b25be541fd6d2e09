#include "tests/cuda_emulation/runtime/host_thread.h"

#include <atomic>

namespace tessera::cuda_emulation {
namespace {

std::atomic<uint64_t> num_threads{0};
thread_local constinit uint64_t number = 0;

}  // namespace

uint64_t CurrentHostThread() {
  if (number == 0) number = ++num_threads;
  return number;
}

}  // namespace tessera::cuda_emulation
