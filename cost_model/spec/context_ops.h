// Attention proper, between the projections: on one rank, or spread over context-parallel ranks.
// Internal to the op list.
#pragma once

#include "cost_model/spec/op_writer.h"

namespace tessera::spec {

// `kind` is kAttentionForward or kAttentionBackward. A context rank holds s / cp tokens of each
// sequence, an early chunk of them and a late one, so that under the causal mask all ranks have the
// same work: 1 / cp of it.
//
// kRing (Liu et al. 2023, arXiv:2310.01889; balanced as in Megatron-LM): cp steps. First the rank's
// own keys under the mask; then those of each other rank, whole blocks: all queries with the half
// of the keys that lies before them, or the half of the queries that lies after all of the keys.
// Keys and values go round, each transfer (kSend) beside the step written after it; backward their
// gradients follow them home. Partial outputs, and backward partial gradients, are merged in fp32.
// kAllGather (Llama 3, arXiv:2407.21783, section 3.3.2): keys and values are gathered before each
// pass, their gradients reduced and scattered.
// kAllToAll (Jacobs et al. 2023, arXiv:2309.14509): heads are swapped for tokens before, and back
// after.
void WriteAttentionCore(OpWriter& write, base::OpKind kind, const LayerForm& form);

}  // namespace tessera::spec
