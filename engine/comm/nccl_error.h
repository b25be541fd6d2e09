// Failures of NCCL as exceptions.
#pragma once

#include <nccl.h>

#include <string>

#include "cost_model/base/error.h"

namespace tessera::engine {

// What NCCL says of a failed call, of `comm` where there is one.
inline std::string NcclMessage(ncclResult_t result, ncclComm_t comm) {
  const char* const last = ncclGetLastError(comm);
  const bool has_more = last != nullptr && *last != '\0';
  return base::Concat(ncclGetErrorString(result), has_more ? "; " : "", has_more ? last : "");
}

// Throws base::CommError: "`what`: what NCCL says".
inline void CheckNccl(ncclResult_t result, const std::string& what, ncclComm_t comm = nullptr) {
  if (result == ncclSuccess) return;
  throw base::CommError(base::Concat(what, ": ", NcclMessage(result, comm)));
}

}  // namespace tessera::engine
