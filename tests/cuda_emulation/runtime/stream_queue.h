// Streams of the emulation: queues of operations, run by the host threads that wait for them.
//
// Streams belong to the host thread that created them (a rank). A thread that synchronises runs the
// operations of its streams until what it waits for is done. Where none of them can run it waits
// for the progress of other threads, then runs what can run in their streams, as a device goes on
// while its host thread is elsewhere; after a time without any progress it throws a Fault that
// names what the head of each stream waits for. No lock is held while an operation runs.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <memory>
#include <string>

namespace tessera::cuda_emulation {

// A kernel, a copy, a collective: one entry of a stream's queue.
class StreamOperation {
 public:
  virtual ~StreamOperation() = default;

  // Does the work and returns true, or returns false where it cannot be done yet: a wait for an
  // event, a collective whose peers have not come. Never blocks. May be tried many times; by one
  // thread at a time, not always the same. What it throws fails the device of its stream, and comes
  // out of the next call that synchronises.
  virtual bool TryRun() = 0;

  // For messages, in the present tense: "ncclAllReduce of rank 1, waits for ranks 0 and 3".
  virtual std::string Describe() const = 0;

  // A copy that has not run yet, for the replay of a captured graph. Throws a Fault unless
  // overridden: the operation cannot be captured.
  virtual std::unique_ptr<StreamOperation> Clone() const;
};

// When the operations of a stream run.
enum class StreamOrder {
  kEager,        // as soon as they can, in the order of their issue
  kAdversarial,  // not before somebody waits, and then in an order that breaks code which lacks an
                 // event wait: among the streams that could go on, the latest work first
};

// Applies to what is issued afterwards, in all threads. Seed 0 takes the stream whose next
// operation was issued last, seed 1 runs the stream that was issued to last as far as it goes, any
// other draws. The environment sets the start: TESSERA_CUDA_ORDER=eager|adversarial,
// TESSERA_CUDA_SEED=n.
void SetStreamOrder(StreamOrder order, uint64_t seed = 0);

// Seconds without progress after which a waiting thread gives up. The default is 60.
void SetWaitTimeout(double timeout_s);

// Appends an operation to a stream. While the stream is captured the operation becomes a node of
// the graph instead. cudaErrorInvalidResourceHandle where there is no such stream; throws a Fault
// for the legacy default stream (nullptr), which the emulation refuses.
cudaError_t Enqueue(cudaStream_t stream, std::unique_ptr<StreamOperation> operation);

// Wakes the threads that wait: an operation in one of their streams may have become ready.
void NotifyProgress();

// The device a stream was created on; -1 where there is no such stream.
int DeviceOf(cudaStream_t stream);

}  // namespace tessera::cuda_emulation
