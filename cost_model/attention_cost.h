// Attention, fused and unfused.
#pragma once

#include "cost_model/base/op.h"
#include "cost_model/kernel_time.h"

namespace tessera::cost_model {

// kAttentionForward or kAttentionBackward.
//
// Fused (the softmax is not kept): one kernel forward, two backward, of blocks of query rows that
// the compute units share out. A score costs its products (4 head_dim FLOPs forward, 10 backward)
// and an exponential, twice in the backward pass; scores above the causal diagonal or outside the
// window are skipped block by block (Dao 2023, arXiv:2307.08691). No less than its memory traffic.
//
// Unfused: batched products by shape, two forward and four backward, and passes over the scores for
// softmax, and by the runtime's flags for scaling, mask and dropout.
KernelTime AttentionTime(const base::OpRecord& record, const RankDevice& device);

}  // namespace tessera::cost_model
