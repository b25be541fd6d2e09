#pragma once

#include <vector>

#include "cost_model/spec/model_spec.h"

namespace tessera::engine {

// Inverse rotary frequencies theta^(-2i/head_dim), i < head_dim/2 (Su et al. 2021,
// arXiv:2104.09864), low ones stretched as Llama 3.1 does where the model says so. Empty without
// rotary positions.
std::vector<double> InverseRopeFrequencies(const spec::ModelSpec& model);

}  // namespace tessera::engine
