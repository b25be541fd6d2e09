// Activation functions and their derivatives, in fp32.
#pragma once

#include <cuda_runtime.h>

namespace tessera::kernels::cuda {

// sigmoid(x) and 1 - sigmoid(x), each without cancellation.
struct SigmoidPair {
  float sigmoid, complement;
};
__device__ __forceinline__ SigmoidPair Sigmoid(float x) {
  const float decay = __expf(-fabsf(x));
  const float large = __fdividef(1.0F, 1.0F + decay);
  const float small = decay * large;
  return x >= 0.0F ? SigmoidPair{large, small} : SigmoidPair{small, large};
}

// GELU by tanh (Hendrycks & Gimpel 2016, arXiv:1606.08415), as x * sigmoid(2 u) with
// u = sqrt(2 / pi) (x + 0.044715 x^3), which is the same.
inline constexpr float kGeluSlope = 1.5957691216057308F;  // 2 sqrt(2 / pi)
inline constexpr float kGeluCubic = 0.044715F;

__device__ __forceinline__ float Gelu(float x) {
  return x * Sigmoid(kGeluSlope * (x + kGeluCubic * x * x * x)).sigmoid;
}

__device__ __forceinline__ float GeluGrad(float x) {
  const auto [sigmoid, complement] = Sigmoid(kGeluSlope * (x + kGeluCubic * x * x * x));
  const float slope = kGeluSlope * (1.0F + 3.0F * kGeluCubic * x * x);
  return sigmoid * (1.0F + x * complement * slope);
}

}  // namespace tessera::kernels::cuda
