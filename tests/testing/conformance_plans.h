// Small models and the layouts over which prediction and execution are held together.
#pragma once

#include <string>
#include <vector>

#include "cost_model/spec/plan.h"

namespace tessera::testing {

struct NamedPlan {
  std::string name;
  spec::Plan plan;
  std::string choices;  // in words, where the name does not hold them
};

// GPT (tied, odd vocabulary), Llama (grouped heads, fewer than tp in places) and Qwen2 (q/k/v
// biases, untied) under every schedule, recomputation, sharding and attention kind.
// No reduction is hidden behind a pass, so that a pass is its own operations alone. Their cluster
// is a pool of cores; one of devices of their own asks for other memory.
std::vector<NamedPlan> ConformancePlans(spec::Precision precision = spec::Precision::kFp32);

// Of these the GPT (learned positions) and the Llama (rotary ones), with weights that are far from
// a linear model.
std::vector<spec::ModelSpec> GptAndLlama();

// The trainings of the cover of layouts (layout_cover.h), likewise on a pool of cores.
std::vector<NamedPlan> CoverPlans();

}  // namespace tessera::testing
