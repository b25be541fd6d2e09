// Which of torchtitan's models a model is.
#pragma once

#include <string>

#include "cost_model/spec/model_spec.h"

namespace tessera::planner {

struct TorchtitanModel {
  std::string name;    // "llama3"; empty: no model of torchtitan has this form
  std::string flavor;  // "8B"; empty: of the form, but of no registered sizes
};

// By form and sizes, whatever the model's own name.
TorchtitanModel TorchtitanModelOf(const spec::ModelSpec& model);

// The sizes by the names of torchtitan's model arguments: "dim 4096, n_layers 32, ...".
std::string TorchtitanSizesText(const spec::ModelSpec& model);

}  // namespace tessera::planner
