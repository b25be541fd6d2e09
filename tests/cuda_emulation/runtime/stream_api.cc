// The calls about streams, but for their capture.
#include <string>

#include "tests/cuda_emulation/runtime/device.h"
#include "tests/cuda_emulation/runtime/device_memory.h"
#include "tests/cuda_emulation/runtime/errors.h"
#include "tests/cuda_emulation/runtime/host_thread.h"
#include "tests/cuda_emulation/runtime/runtime_api.h"
#include "tests/cuda_emulation/runtime/stream.h"

using namespace tessera::cuda_emulation;

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  if (flags != cudaStreamDefault && flags != cudaStreamNonBlocking) {
    return Refuse(cudaErrorInvalidValue, "cudaStreamCreateWithFlags: unknown flags");
  }
  *stream = new CUstream_st;
  (*stream)->device = CurrentDevice();
  (*stream)->is_blocking = flags == cudaStreamDefault;
  (*stream)->owner = CurrentHostThread();
  AddStream(*stream);
  return cudaSuccess;
}

// Priorities change nothing here: the adversarial order heeds none.
cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
  return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  const cudaError_t error = CheckStream(stream, "cudaStreamDestroy");
  if (error != cudaSuccess) return error;
  RunUntil(
      {.owner = stream->owner}, [=] { return IsDone(stream); }, "cudaStreamDestroy");
  RemoveStream(stream);
  delete stream;
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  const cudaError_t error = CheckStream(stream, "cudaStreamSynchronize");
  if (error != cudaSuccess) return error;
  if (stream->capture != nullptr) {
    stream->capture->is_invalid = true;
    return Refuse(cudaErrorStreamCaptureUnsupported, "cudaStreamSynchronize of a captured stream");
  }
  RunUntil(
      {.owner = stream->owner}, [=] { return IsDone(stream); }, "cudaStreamSynchronize");
  return ThrowIfFailed(stream->device);
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  const cudaError_t error = CheckStream(stream, "cudaStreamQuery");
  if (error != cudaSuccess) return error;
  if (stream->capture != nullptr) {
    stream->capture->is_invalid = true;
    return Refuse(cudaErrorStreamCaptureUnsupported, "cudaStreamQuery of a captured stream");
  }
  bool is_done = false;
  WithStreams([&] { is_done = IsDone(stream); });
  if (is_done) return ThrowIfFailed(stream->device);
  // Work that nobody waits for otherwise must go on while somebody asks for it again and again.
  RunOne({.owner = stream->owner});
  return cudaErrorNotReady;
}

cudaError_t cudaDeviceSynchronize() {
  const cudaError_t error = RefuseWhileCapturing("cudaDeviceSynchronize");
  if (error != cudaSuccess) return error;
  FinishDevice(CurrentDevice());
  const std::string stray = FindStrayWrites(/*freed_too=*/true);
  if (!stray.empty()) FailDevice(CurrentDevice(), stray);
  return ThrowIfFailed(CurrentDevice());
}
