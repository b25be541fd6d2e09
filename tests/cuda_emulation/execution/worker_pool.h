// Threads that help with the blocks of a kernel.
#pragma once

#include <functional>

namespace tessera::cuda_emulation {

// Calls `work` on the calling thread and, as far as they are free, on up to num_helpers others;
// returns when all have returned. `work` must not throw.
void RunWithHelpers(int num_helpers, const std::function<void()>& work);

}  // namespace tessera::cuda_emulation
