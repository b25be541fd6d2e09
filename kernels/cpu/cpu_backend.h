// The backend for CPUs. Everything is computed in fp32, whatever the type of the arrays; a result
// is rounded once, when it is stored. One file an operation family; results do not depend on the
// number of threads, matrix products apart, whose library may treat the edges of a block its own
// way.
#pragma once

#include <thread>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cpu/rope_table.h"
#include "kernels/cpu/rows.h"
#include "kernels/cpu/scratch.h"
#include "kernels/cpu/thread_pool.h"

namespace tessera::kernels {

// What a thread of the pool keeps between tasks.
struct ThreadMemory {
  Scratch scratch;
  RowReader a, b, c, d;
  RowWriter result, second_result;
  std::vector<uint32_t> bits;  // of dropout
};

class CpuBackend : public Backend {
 public:
  explicit CpuBackend(int num_threads);

  void* Allocate(size_t bytes) override;
  void Free(void* memory, size_t bytes) override;
  void CopyToDevice(void* device, const void* host, size_t bytes) override;
  void CopyToHost(void* host, const void* device, size_t bytes) override;
  void Synchronize() override {}
  bool is_host_memory() const override { return true; }

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
  // Before matrix products: the caller may not be the thread that made the backend.
  void PrepareBlas();

  ThreadPool pool_;
  // Memory beside what Allocate gives out, so no part of the bytes that the engine counts.
  // Attention takes up to (head_dim + 2 sequence) 32 floats a thread; where query heads share keys
  // and values, or their gradients are 16-bit, its backward pass sums them apart in the shared one,
  // 2 batch heads sequence head_dim floats, as much as k and v would take in fp32 with a head for
  // every query head. What converts 16-bit operands keeps pieces of them: a few rows, in matrix
  // products 2 MB a thread.
  std::vector<ThreadMemory> thread_memory_;  // one a thread of the pool
  Scratch shared_scratch_;
  RopeTable rope_table_;
  std::thread::id blas_thread_;
};

// Elements per thread from which on a second thread pays for its wake-up in a plain pass over
// memory.
constexpr int64_t kElementGrain = 16384;
// The same in rows of `width` elements.
constexpr int64_t RowGrain(int64_t width) { return base::CeilDiv(kElementGrain, width); }
// Floats of a cache line: range borders in multiples of it keep threads off each other's lines.
constexpr int64_t kLineFloats = kAlignmentBytes / static_cast<int64_t>(sizeof(float));
// The same for arrays whose elements may have two bytes.
constexpr int64_t kLineElements = kAlignmentBytes / 2;

}  // namespace tessera::kernels
