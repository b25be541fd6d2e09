// Arguments of Megatron-LM for pipeline stages: how many, in how many chunks, with which layers.
#pragma once

#include "cost_model/spec/megatron_fields_json.h"
#include "cost_model/spec/parallel_spec.h"

namespace tessera::spec {

void VisitMegatronPipeline(MegatronFields& fields, const ModelSpec& model, ParallelSpec& parallel);

// The decoder layers of each stage of --pipeline-model-parallel-layout ("Et*3|(tt|)*29m|L": E
// embedding, t layer, m multi-token layer, L loss; x*n and (...)*n repeat). Throws
// base::ConfigError by `fields` for anything else.
std::vector<int> ParseMegatronStages(MegatronFields& fields, std::string text);

}  // namespace tessera::spec
