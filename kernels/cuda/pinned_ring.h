// A ring of pinned host memory between a device and memory that the system may move: the only
// memory that a GPU copies from and to by itself, at full speed and without anyone waiting.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <deque>
#include <memory>
#include <vector>

#include "kernels/cuda/cuda_resources.h"

namespace tessera::kernels::cuda {

class PinnedRing {
 public:
  explicit PinnedRing(size_t num_bytes) : memory_(num_bytes) {}

  // Enqueues the copy; `host` may change when this returns. Waits only where the ring is full of
  // copies that the stream has not run.
  void CopyToDevice(void* device, const void* host, size_t num_bytes, cudaStream_t stream);

  // `host` has it when this returns. While one piece travels the host empties another.
  void CopyToHost(void* host, const void* device, size_t num_bytes, cudaStream_t stream);

 private:
  struct InFlight {
    size_t begin = 0, end = 0;  // in the ring
    std::unique_ptr<Event> copied;
    void* to = nullptr;  // where the host has it in the end, of copies from the device
  };

  // The longest piece that a copy goes by.
  size_t piece_bytes() const;
  // Place for `num_bytes` on end, no longer read or written by any copy.
  size_t Reserve(size_t num_bytes);
  // The piece at `begin` is in flight from now on, up to what `stream` was given so far.
  void Follow(size_t begin, size_t num_bytes, void* to, cudaStream_t stream);
  void ReleaseOldest();

  PinnedMemory memory_;
  size_t head_ = 0;
  std::deque<InFlight> in_flight_;  // the oldest first
  std::vector<std::unique_ptr<Event>> free_events_;
};

}  // namespace tessera::kernels::cuda
