// What a rank keeps of each parameter, as arrays of its device.
#pragma once

#include <vector>

#include "engine/layers/parameter_store.h"

namespace tessera::engine {

// Stored elements [first, first + data's count) of a rank's slice of a parameter.
struct HeldPart {
  size_t parameter = 0;  // index into ParameterStore::parameters
  int64_t first = 0;
  int64_t count = 0;
  kernels::Array data;
};

// Weights in the parameters' type, replicas and tied copies included: whole slices, or with ZeRO
// stage 3 what of them the rank owns.
std::vector<HeldPart> HeldWeights(const ParameterStore& store);
// Gradients once a step has reduced them, until the next one begins: of what the rank updates. In
// fp16 they are times the loss scale.
std::vector<HeldPart> HeldGradients(const ParameterStore& store);

}  // namespace tessera::engine
