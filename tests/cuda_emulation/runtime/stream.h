// Inside the emulation of streams: what a stream, an event and a capture are, and the one lock.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/cuda_emulation/runtime/graph.h"
#include "tests/cuda_emulation/runtime/runtime_types.h"
#include "tests/cuda_emulation/runtime/stream_queue.h"

// One entry: `issue` counts all operations of the process in the order of their calls.
struct QueuedOperation {
  std::unique_ptr<tessera::cuda_emulation::StreamOperation> operation;
  uint64_t issue;
};

// The members are guarded by the lock of stream_queue.cc, but for what never changes.
struct CUstream_st {
  int device = 0;           // never changes
  bool is_blocking = true;  // never changes: waits for, and is waited for by, the default stream
  uint64_t owner = 0;       // never changes: the host thread that created it
  std::deque<QueuedOperation> queue;
  bool is_running = false;    // a thread runs the head
  uint64_t tried_at = ~0ull;  // the progress count at which the head was last found not ready
  std::shared_ptr<tessera::cuda_emulation::Capture> capture;  // null unless it is captured
  std::vector<int> frontier;  // nodes of the graph that the next captured operation comes after
};

namespace tessera::cuda_emulation {

// One recording of an event: done once the work before it is.
struct EventRecord {
  std::atomic<bool> is_done{false};
  std::chrono::steady_clock::time_point time;  // valid when done
  uint64_t owner = 0;                          // of the stream that it was recorded in
  int device = 0;
};

// The streams whose work a thread waits for: those of a host thread, and those of a device.
struct StreamSet {
  uint64_t owner = 0;
  int device = -1;  // all owners' streams of this device, unless it is -1
  bool is_all = false;
};

// Runs operations of the streams of a set until `is_done`, which is called under the lock. When
// nothing moves for too long the devices of the set fail; `is_done` must be true then.
void RunUntil(const StreamSet& streams, const std::function<bool()>& is_done, const char* call);

// Runs one operation of the set, if one can run: what a query does for the work it asks about.
void RunOne(const StreamSet& streams);

// Calls `action` under the lock of the streams.
void WithStreams(const std::function<void()>& action);

// Whether the handle is that of a stream. REQUIRES: the lock.
bool IsStream(cudaStream_t stream);

// Whether nothing is left to do in a stream, or never will be done. REQUIRES: the lock.
bool IsDone(cudaStream_t stream);

void AddStream(cudaStream_t stream);
void RemoveStream(cudaStream_t stream);

// cudaSuccess for a stream; a Fault for the legacy default stream.
cudaError_t CheckStream(cudaStream_t stream, const char* call);

// Finishes all work of a device; errors are kept for the next call that waits.
void FinishDevice(int device);

// Finishes the streams of a device that are ordered with the legacy default stream.
void FinishBlockingStreams(int device);

// Forgets what is queued in all streams.
void DropAllOperations();

// An error, and the end of the capture, where the calling thread captures a stream and the call is
// one that CUDA forbids meanwhile.
cudaError_t RefuseWhileCapturing(const char* call);

}  // namespace tessera::cuda_emulation
