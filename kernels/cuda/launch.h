// Starts kernels, in a form that needs no launch syntax of its own.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/cuda_error.h"

namespace tessera::kernels::cuda {

struct LaunchShape {
  dim3 grid;
  dim3 block;
  int64_t shared_bytes = 0;  // dynamic shared memory
};

// What a block gets without asking.
inline constexpr int64_t kDefaultSharedBytes = 48 << 10;

// Enqueues kernel(args...) on the stream; `name` is what an error calls it. Throws
// base::SystemError when it cannot start.
template <typename... Params, typename... Args>
void Launch(const char* name, void (*kernel)(Params...), const LaunchShape& shape,
            cudaStream_t stream, const Args&... args) {
  if (shape.shared_bytes > kDefaultSharedBytes) {
    CheckCuda(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                   cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   static_cast<int>(shape.shared_bytes)),
              name);
  }
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.grid;
  config.blockDim = shape.block;
  config.dynamicSmemBytes = static_cast<size_t>(shape.shared_bytes);
  config.stream = stream;
  CheckCuda(cudaLaunchKernelEx(&config, kernel, static_cast<Params>(args)...), name);
}

}  // namespace tessera::kernels::cuda
