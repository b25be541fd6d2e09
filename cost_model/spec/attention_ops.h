// The attention half of a layer, norm and residual included: multi-head with grouped queries, or
// latent (DeepSeek-V2, arXiv:2405.04434). Internal to the op list.
#pragma once

#include "cost_model/spec/op_writer.h"

namespace tessera::spec {

void WriteAttentionForward(OpWriter& write, const LayerForm& form);
// Norm to the output of attention again, without the output projection where `recompute` is
// kSelective: then its softmax alone.
void WriteAttentionBackward(OpWriter& write, const LayerForm& form, Recompute recompute);

}  // namespace tessera::spec
