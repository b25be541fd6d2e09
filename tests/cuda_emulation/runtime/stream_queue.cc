#include "tests/cuda_emulation/runtime/stream_queue.h"

#include <mutex>
#include <utility>

#include "tests/cuda_emulation/runtime/device.h"
#include "tests/cuda_emulation/runtime/errors.h"
#include "tests/cuda_emulation/runtime/fault.h"
#include "tests/cuda_emulation/runtime/host_thread.h"
#include "tests/cuda_emulation/runtime/stream.h"
#include "tests/cuda_emulation/runtime/stream_scheduler.h"

namespace tessera::cuda_emulation {
namespace {

StreamScheduler& Scheduler() { return StreamScheduler::Get(); }

// Whether the streams of a device are empty, or those among them that block. REQUIRES: the lock.
bool IsIdle(int device, bool blocking_only) {
  for (cudaStream_t stream : Scheduler().streams()) {
    if (stream->device == device && (stream->is_blocking || !blocking_only) && !IsDone(stream)) {
      return false;
    }
  }
  return true;
}

}  // namespace

std::unique_ptr<StreamOperation> StreamOperation::Clone() const {
  throw Fault(Describe() + ": cannot be captured into a graph");
}

void SetStreamOrder(StreamOrder order, uint64_t seed) { Scheduler().SetOrder(order, seed); }
void SetWaitTimeout(double timeout_s) { Scheduler().SetTimeout(timeout_s); }
void NotifyProgress() { Scheduler().Notify(); }
void DropAllOperations() { Scheduler().DropAll(); }

cudaError_t Enqueue(cudaStream_t stream, std::unique_ptr<StreamOperation> operation) {
  if (stream == nullptr) {
    throw Fault(operation->Describe() + ": in the legacy default stream, which is not emulated");
  }
  return Scheduler().Enqueue(stream, std::move(operation));
}

int DeviceOf(cudaStream_t stream) {
  const std::lock_guard lock(Scheduler().mutex());
  return IsStream(stream) ? stream->device : -1;
}

void RunUntil(const StreamSet& streams, const std::function<bool()>& is_done, const char* call) {
  Scheduler().RunUntil(streams, is_done, call);
}
void RunOne(const StreamSet& streams) { Scheduler().RunOne(streams); }

void WithStreams(const std::function<void()>& action) {
  const std::lock_guard lock(Scheduler().mutex());
  action();
}

bool IsStream(cudaStream_t stream) { return Scheduler().streams().contains(stream); }

bool IsDone(cudaStream_t stream) {
  return !stream->is_running && (stream->queue.empty() || HasFailed(stream->device));
}

cudaError_t CheckStream(cudaStream_t stream, const char* call) {
  if (stream == nullptr) {
    throw Fault(std::string(call) + ": the legacy default stream is not emulated");
  }
  const std::lock_guard lock(Scheduler().mutex());
  if (IsStream(stream)) return cudaSuccess;
  return Refuse(cudaErrorInvalidResourceHandle, std::string(call) + ": no such stream");
}

void AddStream(cudaStream_t stream) {
  WithStreams([=] { Scheduler().streams().insert(stream); });
}
void RemoveStream(cudaStream_t stream) {
  WithStreams([=] { Scheduler().streams().erase(stream); });
}

void FinishDevice(int device) {
  RunUntil(
      {.owner = CurrentHostThread(), .device = device},
      [=] { return IsIdle(device, /*blocking_only=*/false); }, "a call that waits for the device");
}

void FinishBlockingStreams(int device) {
  RunUntil(
      {.owner = CurrentHostThread(), .device = device},
      [=] { return IsIdle(device, /*blocking_only=*/true); },
      "a call that waits for the blocking streams");
}

}  // namespace tessera::cuda_emulation
