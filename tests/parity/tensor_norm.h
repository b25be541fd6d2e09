#pragma once

#include <cmath>
#include <vector>

#include "engine/checkpoint/safetensors.h"

namespace tessera::testing {

inline constexpr double kNormTolerance = 1e-5;  // relative, of fp32 trainings against float64

// The 2-norm of a tensor of a file.
inline double NormOf(const engine::TensorView& view) {
  int64_t elements = 1;
  for (const int64_t dim : view.tensor->shape) elements *= dim;
  std::vector<float> values(static_cast<size_t>(elements));
  engine::ReadFloats(view, 0, elements, values.data());
  double sum = 0;
  for (const float value : values) sum += static_cast<double>(value) * value;
  return std::sqrt(sum);
}

}  // namespace tessera::testing
