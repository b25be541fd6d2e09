// The borders of a tensor-parallel region. Outside it a rank holds `local_tokens` tokens (all of
// them, or its share under sequence parallelism); inside all `tokens`.
// Korthikanti et al. 2022, arXiv:2205.05198, section 4.2.2 (g and g-bar).
#pragma once

#include "engine/layers/layer_context.h"

namespace tessera::engine {

// All tokens [tokens, hidden] of `local` [local_tokens, hidden]: gathered into `storage` under
// sequence parallelism, `local` itself otherwise.
kernels::ConstArray GatherTokens(const LayerContext& context, kernels::ConstArray local,
                                 Buffer& storage);

// Adds up the partial sums [tokens, hidden] that the ranks hold; returns this rank's tokens
// [local_tokens, hidden].
Buffer ReducePartialSums(const LayerContext& context, Buffer partial);

}  // namespace tessera::engine
