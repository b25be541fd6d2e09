// Why the cuBLASLt double refused a call. The library itself answers with a status alone.
#pragma once

#include <cublasLt.h>

#include <string>

namespace tessera::cuda_emulation::cublaslt {

// Keeps `reason` for LastRefusal and returns `status`. Prints it to stderr, but for a
// combination that is not supported: callers have another way then.
cublasStatus_t RefuseCall(cublasStatus_t status, const char* function, const std::string& reason);

// The reason of the calling thread's last refusal.
const std::string& LastRefusal();

}  // namespace tessera::cuda_emulation::cublaslt
