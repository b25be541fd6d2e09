// Operations bound by memory: norms, activations, rotary positions, residuals, embedding, cross
// entropy, optimizer.
#pragma once

#include "cost_model/base/op.h"
#include "cost_model/kernel_time.h"

namespace tessera::cost_model {

// Any operation but products, attention and communication: the bytes that it moves, and those of
// the further passes and kernels that the runtime makes of it (RuntimeSpec).
KernelTime ElementwiseTime(const base::OpRecord& record, const RankDevice& device);

// An optimizer step over `elements` parameters, `extra_bytes` an element beside AdamW's own.
KernelTime OptimizerTime(int64_t elements, double extra_bytes, const RankDevice& device);

}  // namespace tessera::cost_model
