#include "tests/cuda_emulation/cublaslt/diagnosis.h"

#include <cstdio>

namespace tessera::cuda_emulation::cublaslt {
namespace {

thread_local std::string last_refusal;

}  // namespace

cublasStatus_t RefuseCall(cublasStatus_t status, const char* function, const std::string& reason) {
  last_refusal = std::string(function) + ": " + reason;
  if (status == CUBLAS_STATUS_NOT_SUPPORTED) return status;
  std::fprintf(stderr, "cuBLASLt double: %s (%s)\n", last_refusal.c_str(),
               cublasLtGetStatusName(status));
  return status;
}

const std::string& LastRefusal() { return last_refusal; }

}  // namespace tessera::cuda_emulation::cublaslt

// The version whose header the double follows.
const char* cublasLtGetStatusName(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "CUBLAS_STATUS_NOT_INITIALIZED";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "CUBLAS_STATUS_ALLOC_FAILED";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "CUBLAS_STATUS_INVALID_VALUE";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "CUBLAS_STATUS_EXECUTION_FAILED";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "CUBLAS_STATUS_INTERNAL_ERROR";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "CUBLAS_STATUS_NOT_SUPPORTED";
  }
  return "unknown";
}

const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS:
      return "success";
    case CUBLAS_STATUS_NOT_INITIALIZED:
      return "the library was not initialized";
    case CUBLAS_STATUS_ALLOC_FAILED:
      return "no memory";
    case CUBLAS_STATUS_INVALID_VALUE:
      return "an argument is out of its range or in conflict with another";
    case CUBLAS_STATUS_EXECUTION_FAILED:
      return "a kernel failed";
    case CUBLAS_STATUS_INTERNAL_ERROR:
      return "an internal operation failed";
    case CUBLAS_STATUS_NOT_SUPPORTED:
      return "no implementation takes this combination";
  }
  return "unknown";
}
