// Megatron-LM's layout arguments as our spec.
#pragma once

#include "cost_model/spec/megatron_fields_json.h"
#include "cost_model/spec/parallel_spec.h"

namespace tessera::spec {

// `model` has been visited already; `training` matters in writing alone.
void VisitMegatronLayout(MegatronFields& fields, const ModelSpec& model,
                         const TrainingSpec& training, ParallelSpec& parallel);

// Which layers are computed again in the backward pass.
void VisitMegatronRecompute(MegatronFields& fields, const ModelSpec& model, ParallelSpec& parallel);

// What is sharded over the data-parallel ranks, and how it travels.
void VisitMegatronSharding(MegatronFields& fields, ParallelSpec& parallel);

}  // namespace tessera::spec
