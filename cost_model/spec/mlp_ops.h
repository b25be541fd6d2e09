// The MLP half of a layer, norm and residual included: dense, or experts behind a router. Internal
// to the op list.
#pragma once

#include "cost_model/spec/op_writer.h"

namespace tessera::spec {

// All but the products down to the hidden width and what follows them: everything that the backward
// pass reads.
void WriteMlpUpToDown(OpWriter& write, const LayerForm& form);
// The rest of the forward pass.
void WriteMlpDown(OpWriter& write, const LayerForm& form);
void WriteMlpBackward(OpWriter& write, const LayerForm& form);

}  // namespace tessera::spec
