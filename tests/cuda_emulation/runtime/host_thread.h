// Numbers for host threads.
#pragma once

#include <cstdint>

namespace tessera::cuda_emulation {

// The number of the calling thread, counted from 1 and never used again.
uint64_t CurrentHostThread();

}  // namespace tessera::cuda_emulation
