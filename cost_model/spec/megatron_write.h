// A job and its layout as arguments of Megatron-LM's pretrain_gpt.py.
#pragma once

#include <string>
#include <vector>

#include "cost_model/spec/parallel_spec.h"

namespace tessera::spec {

struct MegatronArgument {
  std::string section;  // "Model", "Layout": arguments of one stand together
  std::string name;     // in Python's form: num_layers is --num-layers
  std::string value;    // empty: a flag without a value
};

struct MegatronCommand {
  std::vector<MegatronArgument> arguments;
  std::vector<std::string> warnings;  // one sentence each: what the arguments say otherwise
  std::vector<Violation> violations;  // what Megatron-LM cannot run
};

// What LoadModel takes back unchanged, written as text (see MegatronLine), but for the model's name
// and whatever a warning tells. Its names are those of the reader.
// REQUIRES: FindViolations is empty.
MegatronCommand WriteMegatronArguments(const ModelSpec& model, const TrainingSpec& training,
                                       const ParallelSpec& parallel);

// "--num-layers 96", the value quoted where a shell would take it apart.
std::string MegatronLine(const MegatronArgument& argument);

}  // namespace tessera::spec
