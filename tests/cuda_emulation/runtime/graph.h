// Captured work: operations and the order they must keep.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "tests/cuda_emulation/runtime/runtime_types.h"
#include "tests/cuda_emulation/runtime/stream_queue.h"

namespace tessera::cuda_emulation {

struct GraphNode {
  std::unique_ptr<StreamOperation> operation;
  std::vector<int> dependencies;  // earlier nodes
};

// A capture in progress: the graph so far, and the streams that take part.
struct Capture {
  std::vector<GraphNode> nodes;
  std::vector<cudaStream_t> streams;  // the first is where it began
  cudaStreamCaptureMode mode;
  uint64_t thread;  // that began it
  bool is_invalid = false;
};

// Appends a captured operation. REQUIRES: the lock of the streams.
void AddNode(cudaStream_t stream, std::unique_ptr<StreamOperation> operation);

}  // namespace tessera::cuda_emulation
