// Dynamic shared memory, declared once for all kernels.
#pragma once

#include <cuda_runtime.h>

extern __shared__ uint4 dynamic_shared[];

namespace tessera::kernels::cuda {

// The block's dynamic shared memory as values of T, 16-byte aligned.
template <typename T>
__device__ __forceinline__ T* DynamicShared() {
  return reinterpret_cast<T*>(dynamic_shared);
}

}  // namespace tessera::kernels::cuda
