// Events: markers in one stream that other streams, and the host, wait for.
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda_emulation/runtime/device.h"
#include "tests/cuda_emulation/runtime/errors.h"
#include "tests/cuda_emulation/runtime/host_thread.h"
#include "tests/cuda_emulation/runtime/runtime_api.h"
#include "tests/cuda_emulation/runtime/stream.h"

using namespace tessera::cuda_emulation;

struct CUevent_st {
  bool has_timing = true;
  std::shared_ptr<EventRecord> record;  // the last one; null before the first
  // Where in a graph it was recorded, if its last recording was captured.
  std::shared_ptr<Capture> capture;
  std::vector<int> frontier;
};

namespace {

class RecordOperation final : public StreamOperation {
 public:
  explicit RecordOperation(std::shared_ptr<EventRecord> record) : record_(std::move(record)) {}
  bool TryRun() override {
    record_->time = std::chrono::steady_clock::now();
    record_->is_done = true;
    return true;
  }
  std::string Describe() const override { return "cudaEventRecord"; }
  // In a graph it records anew at every launch.
  std::unique_ptr<StreamOperation> Clone() const override {
    return std::make_unique<RecordOperation>(record_);
  }

 private:
  std::shared_ptr<EventRecord> record_;
};

class WaitOperation final : public StreamOperation {
 public:
  explicit WaitOperation(std::shared_ptr<EventRecord> record) : record_(std::move(record)) {}
  bool TryRun() override { return record_->is_done; }
  std::string Describe() const override {
    return "cudaStreamWaitEvent, for an event of device " + std::to_string(record_->device);
  }

 private:
  std::shared_ptr<EventRecord> record_;
};

// Lets a stream go on after a captured event: what makes other streams part of a capture.
cudaError_t WaitForCaptured(cudaStream_t stream, const CUevent_st& event) {
  cudaError_t error = cudaSuccess;
  WithStreams([&] {
    if (stream->capture == nullptr && stream->queue.empty()) {
      stream->capture = event.capture;
      stream->frontier.clear();
      event.capture->streams.push_back(stream);
    } else if (stream->capture != event.capture) {
      error = cudaErrorStreamCaptureIsolation;
      return;
    }
    for (int node : event.frontier) {
      if (std::find(stream->frontier.begin(), stream->frontier.end(), node) ==
          stream->frontier.end()) {
        stream->frontier.push_back(node);
      }
    }
  });
  if (error == cudaSuccess) return error;
  return Refuse(error, "cudaStreamWaitEvent: the stream has work outside the capture");
}

cudaError_t CheckEvent(cudaEvent_t event, const char* call) {
  if (event == nullptr) return Refuse(cudaErrorInvalidResourceHandle, call);
  if (event->capture == nullptr) return cudaSuccess;
  return Refuse(cudaErrorCapturedEvent,
                std::string(call) + ": the event was recorded in a capture");
}

std::shared_ptr<EventRecord> NewRecordIn(cudaStream_t stream) {
  auto record = std::make_shared<EventRecord>();
  record->owner = stream->owner;
  record->device = stream->device;
  return record;
}

bool HasEnded(const EventRecord& record) { return record.is_done || HasFailed(record.device); }

}  // namespace

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if ((flags & ~(cudaEventBlockingSync | cudaEventDisableTiming)) != 0) {
    return Refuse(cudaErrorInvalidValue, "cudaEventCreateWithFlags: unknown flags");
  }
  *event = new CUevent_st{.has_timing = (flags & cudaEventDisableTiming) == 0};
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (event == nullptr) return Refuse(cudaErrorInvalidResourceHandle, "cudaEventDestroy");
  delete event;  // operations that wait for it share its record
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const cudaError_t error = CheckStream(stream, "cudaEventRecord");
  if (error != cudaSuccess) return error;
  if (event == nullptr) return Refuse(cudaErrorInvalidResourceHandle, "cudaEventRecord");
  event->capture = stream->capture;
  if (stream->capture != nullptr) {
    event->frontier = stream->frontier;
    return cudaSuccess;
  }
  event->record = NewRecordIn(stream);
  return Enqueue(stream, std::make_unique<RecordOperation>(event->record));
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  if (flags == cudaEventRecordDefault) return cudaEventRecord(event, stream);
  const cudaError_t error = CheckStream(stream, "cudaEventRecordWithFlags");
  if (error != cudaSuccess) return error;
  if (event == nullptr || flags != cudaEventRecordExternal) {
    return Refuse(cudaErrorInvalidValue, "cudaEventRecordWithFlags");
  }
  if (stream->capture == nullptr) {
    return Refuse(cudaErrorIllegalState,
                  "cudaEventRecordWithFlags: an external record outside a capture");
  }
  event->capture = nullptr;
  event->record = NewRecordIn(stream);
  return Enqueue(stream, std::make_unique<RecordOperation>(event->record));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const cudaError_t error = CheckStream(stream, "cudaStreamWaitEvent");
  if (error != cudaSuccess) return error;
  if (event == nullptr) return Refuse(cudaErrorInvalidResourceHandle, "cudaStreamWaitEvent");
  if (event->capture != nullptr) return WaitForCaptured(stream, *event);
  if (event->record == nullptr) return cudaSuccess;  // never recorded: nothing to wait for
  if (stream->capture != nullptr) {
    return Refuse(cudaErrorStreamCaptureIsolation,
                  "cudaStreamWaitEvent: a captured stream would wait for work outside the capture");
  }
  return Enqueue(stream, std::make_unique<WaitOperation>(event->record));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  cudaError_t error = CheckEvent(event, "cudaEventSynchronize");
  if (error == cudaSuccess) error = RefuseWhileCapturing("cudaEventSynchronize");
  if (error != cudaSuccess || event->record == nullptr) return error;
  const std::shared_ptr<EventRecord> record = event->record;
  RunUntil(
      {.owner = record->owner}, [&] { return HasEnded(*record); }, "cudaEventSynchronize");
  return ThrowIfFailed(record->device);
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  cudaError_t error = CheckEvent(event, "cudaEventQuery");
  if (error == cudaSuccess) error = RefuseWhileCapturing("cudaEventQuery");
  if (error != cudaSuccess || event->record == nullptr) return error;
  const std::shared_ptr<EventRecord> record = event->record;
  if (record->owner != CurrentHostThread()) {
    // A watchdog: it neither does the owner's work nor takes the owner's fault.
    if (record->is_done) return cudaSuccess;
    return HasFailed(record->device) ? cudaErrorLaunchFailure : cudaErrorNotReady;
  }
  if (HasEnded(*record)) return ThrowIfFailed(record->device);
  // See cudaStreamQuery.
  RunOne({.owner = record->owner});
  return cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  for (cudaEvent_t event : {start, end}) {
    const cudaError_t error = CheckEvent(event, "cudaEventElapsedTime");
    if (error != cudaSuccess) return error;
    if (!event->has_timing || event->record == nullptr) {
      return Refuse(cudaErrorInvalidResourceHandle,
                    "cudaEventElapsedTime: an event without timing, or never recorded");
    }
    if (!event->record->is_done) return cudaErrorNotReady;
  }
  const std::chrono::duration<float, std::milli> elapsed = end->record->time - start->record->time;
  *milliseconds = elapsed.count();
  return cudaSuccess;
}
