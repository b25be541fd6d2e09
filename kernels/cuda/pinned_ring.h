// A ring of pinned host memory through which host data goes to a device without anyone waiting.
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

 private:
  struct InFlight {
    size_t begin = 0, end = 0;  // in the ring
    std::unique_ptr<Event> copied;
  };

  // Place for `num_bytes` on end, no longer read by any copy.
  size_t Reserve(size_t num_bytes);
  void ReleaseOldest();

  PinnedMemory memory_;
  size_t head_ = 0;
  std::deque<InFlight> in_flight_;  // the oldest first
  std::vector<std::unique_ptr<Event>> free_events_;
};

}  // namespace tessera::kernels::cuda
