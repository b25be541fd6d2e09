// Attention in parts, as the ranks of a context-parallel group compute it, held against the whole:
// rank r of n holds chunks r and 2n-1-r of the 2n chunks of every sequence. For any backend.
#pragma once

#include "tests/kernels/whole_attention.h"

namespace tessera::kernels::testing {

// Blocks of keys and values go round: partial outputs merged, gradients added up by the ranks in
// turn.
void ExpectRingIsWhole(Backend& backend, const WholeAttention& whole);
// Each rank sees the keys of all up to the end of either chunk of its own.
void ExpectGatheredIsWhole(Backend& backend, const WholeAttention& whole,
                           base::AttentionStats stats_kind);

}  // namespace tessera::kernels::testing
