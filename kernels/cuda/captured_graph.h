// Operations of a stream, and of streams that wait for it and that it waits for, as a CUDA graph.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <functional>

#include "kernels/backend.h"

namespace tessera::kernels::cuda {

class CapturedGraph final : public OpGraph {
 public:
  // Of what `work` gives to `stream`. Calls of other threads go on meanwhile; those of this one
  // that wait or allocate fail. What `work` throws comes out, the capture ended.
  CapturedGraph(cudaStream_t stream, const std::function<void()>& work);
  ~CapturedGraph() override;
  CapturedGraph(const CapturedGraph&) = delete;
  CapturedGraph& operator=(const CapturedGraph&) = delete;

  void Launch(cudaStream_t stream) const;

  // Marks of the backend among the operations: from the first to before the end.
  size_t first_mark = 0, end_mark = 0;

 private:
  cudaGraphExec_t executable_ = nullptr;
};

// Whether what the stream is given is captured.
bool IsCapturing(cudaStream_t stream);

}  // namespace tessera::kernels::cuda
