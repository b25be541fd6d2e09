// The operations of a training step on one device. Public methods check shapes and report to the
// observer once for all backends; each backend fills in the Do... methods.
//
// A backend belongs to one rank and is called from one thread. Operations run in the order of the
// calls; on a GPU they are enqueued on the backend's stream, and Synchronize waits for them.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "cost_model/base/op.h"
#include "kernels/expert_args.h"
#include "kernels/op_args.h"

namespace tessera::kernels {

// Operations that a device keeps, to run them again and again.
class OpGraph {
 public:
  virtual ~OpGraph() = default;
};

class Backend {
 public:
  virtual ~Backend() = default;

  // Told of every operation below; null for none. Not owned.
  void set_observer(base::OpObserver* observer) { observer_ = observer; }

  void MatMul(const MatMulArgs& args);
  void LayerNormForward(const NormForwardArgs& args);
  void LayerNormBackward(const NormBackwardArgs& args);
  void RmsNormForward(const NormForwardArgs& args);
  void RmsNormBackward(const NormBackwardArgs& args);
  void ResidualAdd(const ResidualAddArgs& args);
  void BiasGrad(const BiasGradArgs& args);
  void SwiGluForward(const SwiGluForwardArgs& args);
  void SwiGluBackward(const SwiGluBackwardArgs& args);
  void Rope(const RopeArgs& args);
  void AttentionForward(AttentionForwardArgs args);
  void AttentionBackward(AttentionBackwardArgs args);
  void EmbeddingForward(const EmbeddingForwardArgs& args);
  void EmbeddingBackward(const EmbeddingBackwardArgs& args);
  void PositionForward(const PositionForwardArgs& args);
  void PositionBackward(const PositionBackwardArgs& args);
  void CrossEntropyMax(const CrossEntropyMaxArgs& args);
  void CrossEntropySumExp(const CrossEntropySumExpArgs& args);
  void CrossEntropyGrad(const CrossEntropyGradArgs& args);
  void SumOfSquares(const SumOfSquaresArgs& args);
  void AdamW(const AdamWArgs& args);
  void Scale(Array x, int64_t n, float factor);  // x *= factor
  void Add(ConstArray x, Array y, int64_t n);    // y += x
  void Fill(Array x, int64_t n, float value);    // x = value
  void Copy(ConstArray source, Array destination, int64_t n);
  void Cast(ConstArray source, Array destination, int64_t n);  // between floating-point types
  void CopyRows(const CopyRowsArgs& args);
  void Dropout(const DropoutArgs& args);
  void GroupedMatMul(const GroupedMatMulArgs& args);
  void GroupedBiasGrad(const GroupedBiasGradArgs& args);
  void RouterForward(const RouterForwardArgs& args);
  void ExpertCount(const ExpertCountArgs& args);
  void RouterBackward(const RouterBackwardArgs& args);
  void WeightedGeluForward(const WeightedGeluForwardArgs& args);
  void WeightedGeluBackward(const WeightedGeluBackwardArgs& args);
  void TokenPermute(const TokenPermuteArgs& args);
  void TokenUnpermute(const TokenUnpermuteArgs& args);
  void LogSumExpMerge(LogSumExpMergeArgs args);
  void SumBlocks(const SumBlocksArgs& args);

  // Device memory, 64-byte aligned, not initialised. Throws base::SystemError when there is none.
  virtual void* Allocate(size_t bytes) = 0;
  virtual void Free(void* memory, size_t bytes) = 0;
  // Scratch for the operations' own use, for as long as the backend lives. A backend that needs
  // none ignores it; one that needs some demands it before the first operation.
  virtual void AttachWorkspace(void* /*memory*/, int64_t /*num_bytes*/) {}
  // The host memory may change when CopyToDevice returns; CopyToHost waits for the operations
  // before it and returns when the bytes are there.
  virtual void CopyToDevice(void* device, const void* host, size_t bytes) = 0;
  virtual void CopyToHost(void* host, const void* device, size_t bytes) = 0;
  virtual void Synchronize() = 0;

  // Host memory that the device reads by itself.
  virtual void* AllocatePinned(size_t bytes) { return ::operator new(bytes); }
  virtual void FreePinned(void* memory, size_t /*bytes*/) { ::operator delete(memory); }
  // As CopyToDevice, but `host`, of AllocatePinned, is read when the copy runs.
  virtual void CopyFromPinned(void* device, const void* host, size_t bytes) {
    CopyToDevice(device, host, bytes);
  }

  // Whether the device keeps operations.
  virtual bool has_graphs() const { return false; }
  // Keeps the operations that `work` calls here and on communicators of the device: none of them
  // runs. Marks among them count on from those so far, and are taken back. What `work` throws comes
  // out. REQUIRES: has_graphs(); `work` neither waits for the device, nor allocates its memory, nor
  // copies from or to the host but by CopyFromPinned.
  virtual std::unique_ptr<OpGraph> Capture(const std::function<void()>& work);
  // Runs them, with what memory, pinned too, holds by then. REQUIRES: as many marks so far as there
  // were at their capture.
  virtual void Launch(const OpGraph& graph);

  // A moment in the order of the operations: once all before it have run. Numbered from 0 since the
  // last TakeMarks. Here by the host's clock at the call, right where operations have run when
  // their call returns.
  virtual size_t Mark();
  // Waits for the operations; returns each mark's time in seconds since the first.
  virtual std::vector<double> TakeMarks();
  // Whether the host reads and writes what Allocate gives out.
  virtual bool is_host_memory() const { return false; }

 protected:
  virtual void DoMatMul(const MatMulArgs& args) = 0;
  virtual void DoLayerNormForward(const NormForwardArgs& args) = 0;
  virtual void DoLayerNormBackward(const NormBackwardArgs& args) = 0;
  virtual void DoRmsNormForward(const NormForwardArgs& args) = 0;
  virtual void DoRmsNormBackward(const NormBackwardArgs& args) = 0;
  virtual void DoResidualAdd(const ResidualAddArgs& args) = 0;
  virtual void DoBiasGrad(const BiasGradArgs& args) = 0;
  virtual void DoSwiGluForward(const SwiGluForwardArgs& args) = 0;
  virtual void DoSwiGluBackward(const SwiGluBackwardArgs& args) = 0;
  virtual void DoRope(const RopeArgs& args) = 0;
  virtual void DoAttentionForward(const AttentionForwardArgs& args) = 0;
  virtual void DoAttentionBackward(const AttentionBackwardArgs& args) = 0;
  virtual void DoEmbeddingForward(const EmbeddingForwardArgs& args) = 0;
  virtual void DoEmbeddingBackward(const EmbeddingBackwardArgs& args) = 0;
  virtual void DoPositionForward(const PositionForwardArgs& args) = 0;
  virtual void DoPositionBackward(const PositionBackwardArgs& args) = 0;
  virtual void DoCrossEntropyMax(const CrossEntropyMaxArgs& args) = 0;
  virtual void DoCrossEntropySumExp(const CrossEntropySumExpArgs& args) = 0;
  virtual void DoCrossEntropyGrad(const CrossEntropyGradArgs& args) = 0;
  virtual void DoSumOfSquares(const SumOfSquaresArgs& args) = 0;
  virtual void DoAdamW(const AdamWArgs& args) = 0;
  virtual void DoScale(Array x, int64_t n, float factor) = 0;
  virtual void DoAdd(ConstArray x, Array y, int64_t n) = 0;
  virtual void DoFill(Array x, int64_t n, float value) = 0;
  virtual void DoCopy(ConstArray source, Array destination, int64_t n) = 0;
  virtual void DoCast(ConstArray source, Array destination, int64_t n) = 0;
  virtual void DoCopyRows(const CopyRowsArgs& args) = 0;
  virtual void DoDropout(const DropoutArgs& args) = 0;
  virtual void DoGroupedMatMul(const GroupedMatMulArgs& args) = 0;
  virtual void DoGroupedBiasGrad(const GroupedBiasGradArgs& args) = 0;
  virtual void DoRouterForward(const RouterForwardArgs& args) = 0;
  virtual void DoExpertCount(const ExpertCountArgs& args) = 0;
  virtual void DoRouterBackward(const RouterBackwardArgs& args) = 0;
  virtual void DoWeightedGeluForward(const WeightedGeluForwardArgs& args) = 0;
  virtual void DoWeightedGeluBackward(const WeightedGeluBackwardArgs& args) = 0;
  virtual void DoTokenPermute(const TokenPermuteArgs& args) = 0;
  virtual void DoTokenUnpermute(const TokenUnpermuteArgs& args) = 0;
  virtual void DoLogSumExpMerge(const LogSumExpMergeArgs& args) = 0;
  virtual void DoSumBlocks(const SumBlocksArgs& args) = 0;

 private:
  base::OpObserver* observer_ = nullptr;
  std::vector<std::chrono::steady_clock::time_point> marks_;
};

// The CPU backend: `num_threads` threads (the caller's among them) for one rank.
std::unique_ptr<Backend> MakeCpuBackend(int num_threads);

}  // namespace tessera::kernels
