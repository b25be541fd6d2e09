// What it costs to hold parameters in shards: they are gathered before each use, and each
// micro-batch's gradients are reduced at once (ZeRO stage 3, FSDP; stage 2 the latter alone).
#pragma once

#include "cost_model/step_parts.h"

namespace tessera::cost_model {

// Adds to each virtual stage's data_s what its passes wait for parameters and gradients, and sets
// the stage's reduction to what follows the last pass. Does nothing unless
// spec::ReducesEachMicrobatch.
//
// Stage 3: parts of the model (embedding, layers, head) are gathered one after the other, each
// while the part before it computes (Zhao et al. 2023, arXiv:2304.11277, section 3.3.2): a forward
// pass waits for the first gathering, and for max(0, gather - compute) at each further part. A
// backward pass gathers again, the head apart, which it finds still whole, and reduces the part it
// has left: max(0, gather + reduce - compute) at each layer, as both share the links. The
// reductions of the last layer and of the embedding have nothing left to hide behind. Stage 2: one
// pass's reduction beside its computing, in buckets.
void AddShardingCosts(JobCosts& costs, const spec::ParallelSpec& parallel, StepParts& parts);

}  // namespace tessera::cost_model
