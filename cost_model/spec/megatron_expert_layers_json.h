// --moe-layer-freq: which layers have experts.
#pragma once

#include "cost_model/spec/megatron_fields_json.h"

namespace tessera::spec {

// An integer, of which 1 alone is ours (experts in every layer), or a Python list of a 0 or a 1 for
// each layer ("([0]*3+[1]*58)"), of which those are ours that begin with dense layers (0) and have
// experts (1) from then on. Others are a base::ConfigError.
void VisitMegatronExpertLayers(MegatronFields& fields, int num_layers, int& num_leading_dense);

}  // namespace tessera::spec
