// Arguments of Megatron-LM for batch, precision and optimizer.
#pragma once

#include "cost_model/spec/megatron_fields_json.h"
#include "cost_model/spec/training_spec.h"

namespace tessera::spec {

void VisitMegatronTraining(MegatronFields& fields, TrainingSpec& training);

}  // namespace tessera::spec
