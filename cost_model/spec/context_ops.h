// Attention proper, between the projections: on one rank, or spread over context-parallel ranks.
// Internal to the op list.
#pragma once

#include "cost_model/spec/op_writer.h"

namespace tessera::spec {

// `kind` is kAttentionForward or kAttentionBackward. A context rank holds s / cp tokens of each
// sequence (context_tokens.h).
//
// kRing (Liu et al. 2023, arXiv:2310.01889; balanced as in Megatron-LM): cp steps, each with the
// keys and values of one rank, while those of the next step are on their way (kRecv, kSend before
// the step that they travel beside). Partial outputs are merged in fp32 by their log-sum-exp.
// Backward the first block travels ahead of the first step; gradients are summed in fp32: of
// queries here, of keys and values by the ranks in turn, one step behind their block, until they
// come home in the last step.
// kAllGather (Llama 3, arXiv:2407.21783, section 3.3.2): keys and values are gathered before each
// pass and put in order; either chunk of queries sees those up to its end. Their gradients are
// summed in fp32, then reduced and scattered.
// kAllToAll (Jacobs et al. 2023, arXiv:2309.14509): heads are swapped for tokens before, and back
// after; the swapped queries, keys, values and output are kept for the backward pass.
void WriteAttentionCore(OpWriter& write, base::OpKind kind, const LayerForm& form);

// What selective recomputation runs again: kAttentionForward, where heads were swapped without its
// exchanges.
void WriteAttentionCoreAgain(OpWriter& write, const LayerForm& form);

}  // namespace tessera::spec
