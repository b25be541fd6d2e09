// Dropout's masks on the CPU.
#pragma once

#include <cstdint>
#include <vector>

#include "kernels/dropout_args.h"

namespace tessera::kernels {

// bits[i], of draw first_index + i of the stream: base::UniformAt is bits * 2^-32. Many draws at
// once, in lanes.
void FillBits(base::PhiloxKey key, uint64_t first_index, int64_t n, uint32_t* bits);

// Masks of rows, one at a time. Serves one thread.
class RowMask {
 public:
  RowMask(const RowDropout& dropout, int64_t width)
      : dropout_(dropout),
        threshold_(DropThreshold(dropout.probability)),
        scale_(KeepScale(dropout.probability)),
        bits_(static_cast<size_t>(width)) {}

  // y = x where an element of the row stays, times the scale, else 0. y may be x.
  void Apply(int64_t row, const float* x, float* y);

 private:
  const RowDropout& dropout_;
  const uint32_t threshold_;
  const float scale_;
  std::vector<uint32_t> bits_;
};

}  // namespace tessera::kernels
