// Sums the gradients of a step over the ranks that hold parts of them.
#pragma once

#include "engine/layers/layer_context.h"
#include "engine/layers/parameter_store.h"

namespace tessera::engine {

// After it, each rank holds the gradients of the whole global batch: in all of the flat buffer
// without sharding, in its own part of each bucket with the distributed optimizer (zero stage 1).
// Order: token-wise parameters over tp (sequence parallelism only), shared key/value heads, tied
// embeddings over first and last stage, then every bucket over the data ranks.
void ReduceGradients(const LayerContext& context, const ParameterStore& store);

// Gives every data rank the weights that the others have updated (zero stage 1).
void GatherWeights(const LayerContext& context, const ParameterStore& store);

}  // namespace tessera::engine
