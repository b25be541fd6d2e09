// A small model with what an independent float64 program found in ten training steps.
#pragma once

#include <map>
#include <ostream>
#include <string>
#include <vector>

#include "cost_model/spec/plan.h"

namespace tessera::testing {

struct GoldenStep {
  double loss = 0;
  double grad_norm = 0;
  double lr = 0;
  double balance_loss = 0;  // of the routers
};

struct GoldenCase {
  std::string name;
  std::string dir;  // config.json, model.safetensors, tokens.bin
  spec::ModelSpec model;
  spec::TrainingSpec training;
  std::vector<GoldenStep> steps;
  std::map<std::string, double> final_parameter_norms;  // by Hugging Face name
};
// For failing tests.
inline void PrintTo(const GoldenCase& golden, std::ostream* out) { *out << golden.name; }

// The cases under $TESSERA_GOLDEN_DIR, or tests/golden: of dense models, or of mixtures of experts.
std::vector<GoldenCase> LoadGoldenCases();
std::vector<GoldenCase> LoadExpertGoldenCases();

}  // namespace tessera::testing
