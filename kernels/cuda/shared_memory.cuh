// Dynamic shared memory, declared once for all kernels.
#pragma once

#include <cuda_runtime.h>

// Tensor-core fragments want 32 bytes.
extern __shared__ __align__(32) uint4 dynamic_shared[];

namespace tessera::kernels::cuda {

// The block's dynamic shared memory as values of T, 32-byte aligned.
template <typename T>
__device__ __forceinline__ T* DynamicShared() {
  return reinterpret_cast<T*>(dynamic_shared);
}

}  // namespace tessera::kernels::cuda
