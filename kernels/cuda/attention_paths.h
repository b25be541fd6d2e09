// The two implementations behind AttentionForward and AttentionBackward.
#pragma once

#include "kernels/cuda/launchers.h"

namespace tessera::kernels::cuda {

// On CUDA cores, in fp32 throughout: every type, head dimensions up to kMaxPlainHeadDim, any
// alignment, both kinds of statistics.
inline constexpr int64_t kMaxPlainHeadDim = 256;
void PlainAttentionForward(const LaunchContext& context, const AttentionForwardArgs& args);
// delta: row sums of dout * out, fp32 [batch, num_heads, sequence], or absent.
void PlainAttentionBackward(const LaunchContext& context, const AttentionBackwardArgs& args,
                            const float* delta);

// On tensor cores: bf16 and fp16, head dimensions up to 128, log-sum-exp, and rows of every array
// that begin at multiples of 16 bytes.
bool TensorCoresTake(const AttentionForwardArgs& args);
bool TensorCoresTake(const AttentionBackwardArgs& args);
void TensorAttentionForward(const LaunchContext& context, const AttentionForwardArgs& args);
void TensorAttentionBackward(const LaunchContext& context, const AttentionBackwardArgs& args,
                             const float* delta);

}  // namespace tessera::kernels::cuda
