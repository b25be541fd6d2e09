// Selective recomputation that keeps every other matrix product (torchtitan's by operations).
#pragma once

#include <vector>

#include "cost_model/spec/op_list.h"

namespace tessera::spec {

// AppendLayerBackward where RuntimeSpec::keeps_alternate_products has kept LayerTensorsOf: what
// full recomputation runs again, less attention, less the products whose results are there (of
// queries, keys and values those of queries and values; of gate and up the gate) and less what
// stands before the scattered sum that sequence parallelism keeps. Latent attention and experts run
// again whole.
void AppendLayerBackwardByProducts(const ModelSpec& model, const ParallelSpec& parallel,
                                   const LayerForm& form, const LocalShape& shape,
                                   std::vector<Op>& ops);

}  // namespace tessera::spec
