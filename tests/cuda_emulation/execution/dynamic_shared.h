// The dynamic shared memory of the block that runs on this operating-system thread.
#pragma once

#include <cstddef>

namespace tessera::cuda_emulation {

// Before the blocks of a kernel: what lies beyond `num_bytes` must not be touched.
void ReserveDynamicShared(size_t num_bytes);

// Before each block: fills it with NaN, so that a read before a write shows.
void PoisonDynamicShared(size_t num_bytes);

// After each block: whether what lies beyond is as it was.
bool IsDynamicSharedIntact(size_t num_bytes);

}  // namespace tessera::cuda_emulation
