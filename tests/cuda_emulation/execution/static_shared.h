// The static shared memory of kernels: fresh for every block, as on the device, and poisoned so
// that a read before a write shows.
#pragma once

#include <cstddef>
#include <vector>

namespace tessera::cuda_emulation {

// That of the kernel that runs on this operating-system thread. Which arrays a kernel uses is seen
// by what it leaves in them: before its first block all of them are poison.
class StaticSharedMemory {
 public:
  explicit StaticSharedMemory(const void* kernel);
  ~StaticSharedMemory();
  StaticSharedMemory(const StaticSharedMemory&) = delete;
  StaticSharedMemory& operator=(const StaticSharedMemory&) = delete;

  void BeforeBlock();

 private:
  void FindUsed();
  void PoisonUsed();

  const void* kernel_;
  char* block_;               // of this thread's variables
  std::vector<size_t> used_;  // indices among all arrays
  bool is_known_ = false;     // what this kernel uses was seen before
  int num_blocks_ = 0;
};

}  // namespace tessera::cuda_emulation
