// A library of fused attention kernels made for each GPU: what FusedAttention works with.
#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstdint>
#include <memory>
#include <string>

#include "cost_model/base/dtype.h"

namespace tessera::kernels::cuda {

// What a pass is built for: causal, log-sum-exp statistics, 16-bit numbers. Heads of a row lie side
// by side; strides are elements from a row to the next.
struct AttentionShape {
  bool is_backward = false;
  bool is_deterministic = false;  // a backward pass without atomic additions
  base::DType dtype = base::DType::kBFloat16;
  int64_t batch = 0, sequence = 0, num_heads = 0, num_kv_heads = 0, head_dim = 0;
  int64_t qkv_stride = 0, out_stride = 0, dqkv_stride = 0;
  int64_t stats_stride = 0;  // from a sample's statistics to the next one's
  float scale = 1;
  auto operator<=>(const AttentionShape&) const = default;
};

// kOut and kStats are written by the forward pass and read by the backward pass, which has the
// tensors behind them besides.
enum AttentionTensor : int { kQ, kK, kV, kOut, kStats, kDout, kDq, kDk, kDv, kNumAttentionTensors };
using AttentionMemory = std::array<void*, kNumAttentionTensors>;

class AttentionGraph {
 public:
  virtual ~AttentionGraph() = default;
  virtual int64_t workspace_bytes() const = 0;
  // Enqueues the pass. Throws base::SystemError when it fails to start.
  virtual void Run(const AttentionMemory& memory, void* workspace, cudaStream_t stream) const = 0;
};

class AttentionLibrary {
 public:
  virtual ~AttentionLibrary() = default;
  virtual std::string name() const = 0;
  // Null where the library has no kernel for the shape; throws base::SystemError for any other
  // failure. Takes up to some seconds: it may compile
  // one. The graph must not outlive the library.
  virtual std::unique_ptr<AttentionGraph> Build(const AttentionShape& shape) = 0;
};

// cuDNN, for the device that is current on this thread; null in a build without it and where it is
// not found at run time.
std::unique_ptr<AttentionLibrary> MakeAttentionLibrary();

}  // namespace tessera::kernels::cuda
