// Megatron-LM's training and layout arguments as our specs.
#pragma once

#include <string>
#include <vector>

#include "cost_model/spec/megatron_arguments_json.h"
#include "cost_model/spec/parallel_spec.h"

namespace tessera::spec {

// Fill the fields whose arguments are given and append their names (ours) to `keys_set`. Throw
// base::ConfigError as MegatronArguments' getters do.
void ReadMegatronTraining(MegatronArguments& arguments, TrainingSpec& training,
                          std::vector<std::string>& keys_set);
// `num_layers` turns layers per virtual stage into a number of chunks.
void ReadMegatronLayout(MegatronArguments& arguments, int num_layers, ParallelSpec& parallel,
                        std::vector<std::string>& keys_set);

}  // namespace tessera::spec
