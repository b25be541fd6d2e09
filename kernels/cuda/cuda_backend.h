// The backend for NVIDIA GPUs. Every operation is enqueued on one stream and returns at once.
#pragma once

#include <cuda_runtime.h>

#include <functional>
#include <memory>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/captured_graph.h"
#include "kernels/cuda/cublaslt_matmul.h"
#include "kernels/cuda/cuda_resources.h"
#include "kernels/cuda/fused_attention.h"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/pinned_ring.h"

namespace tessera::kernels::cuda {

struct CudaBackendOptions {
  int device = 0;
  bool allow_tf32 = false;     // see CublasLtMatMul
  bool deterministic = false;  // see FusedAttention; all else gives the same bits anyway
};

class CudaBackend final : public Backend {
 public:
  // Makes the device current for the calling thread, which is the one to use the backend. Throws
  // base::SystemError where there is no such device.
  explicit CudaBackend(const CudaBackendOptions& options);
  ~CudaBackend() override;

  int device() const { return device_; }
  cudaStream_t stream() const { return stream_.get(); }

  // Called whenever the host has waited for the stream, and before: throws where what the stream
  // ran is worth nothing, as after a failed collective. Empty for none.
  void set_failure_check(std::function<void()> check) { failure_check_ = std::move(check); }
  // Called behind every launch of a graph. Empty for none.
  void set_launch_hook(std::function<void()> hook) { launch_hook_ = std::move(hook); }

  void* Allocate(size_t bytes) override;
  void Free(void* memory, size_t bytes) override;
  // As much of it as cuBLASLt can use is its own, the rest scratch of the kernels; a library of
  // attention has the whole, as operations follow each other. REQUIRES: 256-byte aligned, at least
  // kLeastScratchBytes.
  void AttachWorkspace(void* memory, int64_t num_bytes) override;
  void CopyToDevice(void* device, const void* host, size_t bytes) override;
  void CopyToHost(void* host, const void* device, size_t bytes) override;
  void Synchronize() override;
  void* AllocatePinned(size_t bytes) override;
  void FreePinned(void* memory, size_t bytes) override;
  void CopyFromPinned(void* device, const void* host, size_t bytes) override;
  bool has_graphs() const override { return true; }
  std::unique_ptr<OpGraph> Capture(const std::function<void()>& work) override;
  void Launch(const OpGraph& graph) override;
  size_t Mark() override;
  std::vector<double> TakeMarks() override;

 protected:
  void DoMatMul(const MatMulArgs& args) override;
  void DoLayerNormForward(const NormForwardArgs& args) override;
  void DoLayerNormBackward(const NormBackwardArgs& args) override;
  void DoRmsNormForward(const NormForwardArgs& args) override;
  void DoRmsNormBackward(const NormBackwardArgs& args) override;
  void DoResidualAdd(const ResidualAddArgs& args) override;
  void DoBiasGrad(const BiasGradArgs& args) override;
  void DoSwiGluForward(const SwiGluForwardArgs& args) override;
  void DoSwiGluBackward(const SwiGluBackwardArgs& args) override;
  void DoRope(const RopeArgs& args) override;
  void DoAttentionForward(const AttentionForwardArgs& args) override;
  void DoAttentionBackward(const AttentionBackwardArgs& args) override;
  void DoEmbeddingForward(const EmbeddingForwardArgs& args) override;
  void DoEmbeddingBackward(const EmbeddingBackwardArgs& args) override;
  void DoPositionForward(const PositionForwardArgs& args) override;
  void DoPositionBackward(const PositionBackwardArgs& args) override;
  void DoCrossEntropyMax(const CrossEntropyMaxArgs& args) override;
  void DoCrossEntropySumExp(const CrossEntropySumExpArgs& args) override;
  void DoCrossEntropyGrad(const CrossEntropyGradArgs& args) override;
  void DoSumOfSquares(const SumOfSquaresArgs& args) override;
  void DoAdamW(const AdamWArgs& args) override;
  void DoScale(Array x, int64_t n, float factor) override;
  void DoAdd(ConstArray x, Array y, int64_t n) override;
  void DoFill(Array x, int64_t n, float value) override;
  void DoCopy(ConstArray source, Array destination, int64_t n) override;
  void DoCast(ConstArray source, Array destination, int64_t n) override;
  void DoCopyRows(const CopyRowsArgs& args) override;
  void DoDropout(const DropoutArgs& args) override;
  void DoGroupedMatMul(const GroupedMatMulArgs& args) override;
  void DoGroupedBiasGrad(const GroupedBiasGradArgs& args) override;
  void DoRouterForward(const RouterForwardArgs& args) override;
  void DoExpertCount(const ExpertCountArgs& args) override;
  void DoRouterBackward(const RouterBackwardArgs& args) override;
  void DoWeightedGeluForward(const WeightedGeluForwardArgs& args) override;
  void DoWeightedGeluBackward(const WeightedGeluBackwardArgs& args) override;
  void DoTokenPermute(const TokenPermuteArgs& args) override;
  void DoTokenUnpermute(const TokenUnpermuteArgs& args) override;
  void DoLogSumExpMerge(const LogSumExpMergeArgs& args) override;
  void DoSumBlocks(const SumBlocksArgs& args) override;

 private:
  // What the launchers get. REQUIRES: a workspace is attached.
  const LaunchContext& Context() const;
  void CheckFailure() const;
  // A call that a capture does not allow: what it does would happen once, now.
  void RefuseInCapture(const char* call) const;

  const int device_;
  Stream stream_;
  CublasLtMatMul matmul_;
  PinnedRing ring_;
  LaunchContext context_;
  FusedAttention fused_attention_;
  LaunchContext attention_context_;  // of the library
  int64_t wanted_cublas_bytes_ = 0;
  std::function<void()> failure_check_, launch_hook_;
  bool is_capturing_ = false;
  std::vector<std::unique_ptr<Event>> marks_;  // timed; the first num_marks_ are in use
  size_t num_marks_ = 0;
};

}  // namespace tessera::kernels::cuda
