// How calls of the CUDA runtime report what went wrong.
#pragma once

#include <string>

#include "tests/cuda_emulation/runtime/runtime_types.h"

namespace tessera::cuda_emulation {

// Keeps the error for cudaGetLastError of this thread and returns it. `detail` says on stderr what
// CUDA would keep to itself.
cudaError_t Refuse(cudaError_t error, const std::string& detail);

}  // namespace tessera::cuda_emulation
