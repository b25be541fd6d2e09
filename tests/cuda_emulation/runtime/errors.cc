#include "tests/cuda_emulation/runtime/errors.h"

#include <cstdio>
#include <utility>

#include "tests/cuda_emulation/runtime/runtime_api.h"

namespace tessera::cuda_emulation {
namespace {

thread_local constinit cudaError_t last_runtime_error = cudaSuccess;

struct ErrorText {
  cudaError_t error;
  const char* name;
  const char* description;
};

#define TESSERA_ERROR(name, description) \
  { name, #name, description }
constexpr ErrorText kErrorTexts[] = {
    TESSERA_ERROR(cudaSuccess, "no error"),
    TESSERA_ERROR(cudaErrorInvalidValue, "invalid argument"),
    TESSERA_ERROR(cudaErrorMemoryAllocation, "out of memory"),
    TESSERA_ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    TESSERA_ERROR(cudaErrorInvalidMemcpyDirection, "invalid copy direction for memcpy"),
    TESSERA_ERROR(cudaErrorInvalidDeviceFunction, "invalid device function"),
    TESSERA_ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    TESSERA_ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    TESSERA_ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    TESSERA_ERROR(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    TESSERA_ERROR(cudaErrorNotReady, "device not ready"),
    TESSERA_ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    TESSERA_ERROR(cudaErrorLaunchOutOfResources, "too many resources requested for launch"),
    TESSERA_ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
    TESSERA_ERROR(cudaErrorNotPermitted, "operation not permitted"),
    TESSERA_ERROR(cudaErrorNotSupported, "operation not supported"),
    TESSERA_ERROR(cudaErrorStreamCaptureUnsupported,
                  "operation not permitted when stream is capturing"),
    TESSERA_ERROR(cudaErrorStreamCaptureInvalidated,
                  "operation failed due to a previous error "
                  "during capture"),
    TESSERA_ERROR(cudaErrorStreamCaptureUnmatched, "capture was not initiated in this stream"),
    TESSERA_ERROR(cudaErrorStreamCaptureUnjoined,
                  "capturing stream has unjoined work from other streams"),
    TESSERA_ERROR(cudaErrorStreamCaptureIsolation,
                  "dependency created on uncaptured work in another stream"),
    TESSERA_ERROR(cudaErrorStreamCaptureImplicit,
                  "operation would make the legacy stream depend on a capturing blocking stream"),
    TESSERA_ERROR(cudaErrorCapturedEvent,
                  "operation not permitted on an event last recorded in a "
                  "capturing stream"),
    TESSERA_ERROR(cudaErrorStreamCaptureWrongThread,
                  "attempt to terminate a thread-local capture sequence from another thread"),
    TESSERA_ERROR(cudaErrorUnknown, "unknown error"),
};
#undef TESSERA_ERROR

const ErrorText* TextOf(cudaError_t error) {
  for (const ErrorText& text : kErrorTexts) {
    if (text.error == error) return &text;
  }
  return nullptr;
}

}  // namespace

cudaError_t Refuse(cudaError_t error, const std::string& detail) {
  std::fprintf(stderr, "cuda emulation: %s: %s\n", cudaGetErrorName(error), detail.c_str());
  last_runtime_error = error;
  return error;
}

}  // namespace tessera::cuda_emulation

using namespace tessera::cuda_emulation;

const char* cudaGetErrorName(cudaError_t error) {
  const auto* text = TextOf(error);
  return text != nullptr ? text->name : "unrecognized error code";
}

const char* cudaGetErrorString(cudaError_t error) {
  const auto* text = TextOf(error);
  return text != nullptr ? text->description : "unrecognized error code";
}

cudaError_t cudaGetLastError() { return std::exchange(last_runtime_error, cudaSuccess); }

cudaError_t cudaPeekAtLastError() { return last_runtime_error; }
