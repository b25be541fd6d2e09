// What the tests of the router share: shapes, and a run of its forward pass.
#pragma once

#include <string>
#include <vector>

#include "tests/kernels/device_array.h"
#include "tests/kernels/expert_reference.h"

namespace tessera::kernels::testing {

using reference::RouterShape;
using Ints = std::vector<int32_t>;

// Softmax and a handful of roundings.
constexpr double kRouterTolerance = 1e-6;

// Rows are a multiple of 3, for three sequences.
constexpr RouterShape kRouterShapes[] = {{3, 1, 1, true},  {9, 4, 2, true},    {33, 8, 2, false},
                                         {6, 5, 5, true},  {201, 70, 8, true}, {33, 64, 6, false},
                                         {12, 8, 1, false}};

inline std::string Describe(const RouterShape& shape) {
  return base::Concat("rows ", shape.num_rows, " experts ", shape.num_experts, " chosen ",
                      shape.num_chosen, shape.normalize ? " normalized" : "");
}

struct Routed {
  Floats probabilities, log_sum_exp, weight;
  Ints chosen;
};

inline Routed Route(Backend& backend, const RouterShape& shape, const Floats& logit_values) {
  const int64_t num_weights = shape.num_rows * shape.num_chosen;
  const DeviceFloats logits(backend, logit_values);
  const DeviceFloats log_sum_exp = Unset(backend, shape.num_rows);
  const DeviceFloats weight = Unset(backend, num_weights);
  const DeviceInts chosen(backend, Ints(num_weights, -1));
  backend.RouterForward({.logits = logits,
                         .probabilities = logits,
                         .log_sum_exp = log_sum_exp,
                         .chosen = chosen,
                         .weight = weight,
                         .num_rows = shape.num_rows,
                         .num_experts = shape.num_experts,
                         .num_chosen = shape.num_chosen,
                         .normalize = shape.normalize});
  return {logits.Values(), log_sum_exp.Values(), weight.Values(), chosen.Values()};
}

}  // namespace tessera::kernels::testing
