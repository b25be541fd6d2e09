// What a training computes, put together from the parts that its ranks hold: by parameter and
// global index, whatever the layout.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cost_model/spec/plan.h"
#include "tests/testing/comm_backends.h"

namespace tessera::testing {

struct GlobalTensor {
  std::vector<float> values;            // row-major, without padding
  std::vector<bool> is_held;            // whether some rank holds the element
  int64_t num_holders_that_differ = 0;  // parts of an element that are not the first holder's bits
};
using GlobalTensors = std::map<std::string, GlobalTensor>;

struct TrainedModel {
  std::vector<double> losses;      // by step
  std::vector<double> grad_norms;  // before clipping
  // Of the first step, before clipping: what AdamW's first moment was made of, which each rank
  // keeps for what it owns.
  GlobalTensors first_gradients;
  GlobalTensors weights;  // after the last step
};

// Trains all steps of the plan. Precision fp32.
TrainedModel TrainOver(CommBackend backend, const spec::Plan& plan);
inline TrainedModel TrainOnThreads(const spec::Plan& plan) {
  return TrainOver(CommBackend::kThread, plan);
}

}  // namespace tessera::testing
