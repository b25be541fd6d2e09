// The sum that most gradients end in.
#pragma once

#include <cstdint>

namespace tessera::kernels {

// y[n] += x[n].
inline void AddInto(const float* x, float* y, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) y[j] += x[j];
}

}  // namespace tessera::kernels
