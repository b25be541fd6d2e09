// Failures of the CUDA runtime as exceptions.
#pragma once

#include <cuda_runtime.h>

#include "cost_model/base/error.h"

namespace tessera::kernels::cuda {

// Throws base::SystemError naming the call and what CUDA says of it.
inline void CheckCuda(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // a failure that is told must not turn up again at the next check
  throw base::SystemError(
      base::Concat(call, ": ", cudaGetErrorName(status), ", ", cudaGetErrorString(status)));
}

}  // namespace tessera::kernels::cuda
