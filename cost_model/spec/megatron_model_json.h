// The model's arguments of Megatron-LM.
#pragma once

#include "cost_model/spec/megatron_fields_json.h"
#include "cost_model/spec/training_spec.h"

namespace tessera::spec {

// Reading: `training` gives the sequence length, the default of the number of positions.
void VisitMegatronModel(MegatronFields& fields, ModelSpec& model, const TrainingSpec& training);

}  // namespace tessera::spec
