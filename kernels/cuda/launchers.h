// The operations as kernels on a stream: what the CUDA backend calls. Arguments are checked
// already. Each function enqueues and returns; it throws base::SystemError when a launch fails.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/expert_args.h"
#include "kernels/op_args.h"

namespace tessera::kernels::cuda {

struct LaunchContext {
  cudaStream_t stream = nullptr;
  // Device memory for the operation's own use until the stream has run it, 256-byte aligned, at
  // least kLeastScratchBytes. What needs more works in pieces.
  void* scratch = nullptr;
  int64_t scratch_bytes = 0;
  int num_multiprocessors = 1;
};
inline constexpr int64_t kLeastScratchBytes = int64_t{1} << 20;

void LayerNormForward(const LaunchContext& context, const NormForwardArgs& args);
void LayerNormBackward(const LaunchContext& context, const NormBackwardArgs& args);
void RmsNormForward(const LaunchContext& context, const NormForwardArgs& args);
void RmsNormBackward(const LaunchContext& context, const NormBackwardArgs& args);
void ResidualAdd(const LaunchContext& context, const ResidualAddArgs& args);
void BiasGrad(const LaunchContext& context, const BiasGradArgs& args);
void SwiGluForward(const LaunchContext& context, const SwiGluForwardArgs& args);
void SwiGluBackward(const LaunchContext& context, const SwiGluBackwardArgs& args);
void Rope(const LaunchContext& context, const RopeArgs& args);
void AttentionForward(const LaunchContext& context, const AttentionForwardArgs& args);
void AttentionBackward(const LaunchContext& context, const AttentionBackwardArgs& args);
void EmbeddingForward(const LaunchContext& context, const EmbeddingForwardArgs& args);
void EmbeddingBackward(const LaunchContext& context, const EmbeddingBackwardArgs& args);
void PositionForward(const LaunchContext& context, const PositionForwardArgs& args);
void PositionBackward(const LaunchContext& context, const PositionBackwardArgs& args);
void CrossEntropyMax(const LaunchContext& context, const CrossEntropyMaxArgs& args);
void CrossEntropySumExp(const LaunchContext& context, const CrossEntropySumExpArgs& args);
void CrossEntropyGrad(const LaunchContext& context, const CrossEntropyGradArgs& args);
void SumOfSquares(const LaunchContext& context, const SumOfSquaresArgs& args);
void AdamW(const LaunchContext& context, const AdamWArgs& args);
void Scale(const LaunchContext& context, Array x, int64_t n, float factor);
void Add(const LaunchContext& context, ConstArray x, Array y, int64_t n);
void Fill(const LaunchContext& context, Array x, int64_t n, float value);
void Copy(const LaunchContext& context, ConstArray source, Array destination, int64_t n);
void CopyRows(const LaunchContext& context, const CopyRowsArgs& args);
void Cast(const LaunchContext& context, ConstArray source, Array destination, int64_t n);
void Dropout(const LaunchContext& context, const DropoutArgs& args);
void RouterForward(const LaunchContext& context, const RouterForwardArgs& args);
void ExpertCount(const LaunchContext& context, const ExpertCountArgs& args);
void RouterBackward(const LaunchContext& context, const RouterBackwardArgs& args);
void WeightedGeluForward(const LaunchContext& context, const WeightedGeluForwardArgs& args);
void WeightedGeluBackward(const LaunchContext& context, const WeightedGeluBackwardArgs& args);
void TokenPermute(const LaunchContext& context, const TokenPermuteArgs& args);
void TokenUnpermute(const LaunchContext& context, const TokenUnpermuteArgs& args);
void LogSumExpMerge(const LaunchContext& context, const LogSumExpMergeArgs& args);
void SumBlocks(const LaunchContext& context, const SumBlocksArgs& args);
// What the matrix product's own epilogue does, where the library cannot fuse it: of c[m, n] with
// row stride ldc, by args.epilogue, bias and aux. a, b, k and layout are not read.
void MatMulEpilogue(const LaunchContext& context, const MatMulArgs& args);

}  // namespace tessera::kernels::cuda
