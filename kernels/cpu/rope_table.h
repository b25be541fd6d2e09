#pragma once

#include <cstdint>
#include <vector>

namespace tessera::kernels {

// Cosines and sines of position * inverse_frequency[i], kept between calls: every layer of a model
// asks for the same ones.
class RopeTable {
 public:
  // Makes Row(p) valid for p < sequence. `inverse_frequency` has `half` entries.
  void Prepare(const double* inverse_frequency, int64_t half, int64_t sequence);

  // [cosines (half), sines (half)] of a position.
  const float* Row(int64_t position) const {
    return values_.data() + position * 2 * static_cast<int64_t>(inverse_frequency_.size());
  }

 private:
  std::vector<double> inverse_frequency_;
  std::vector<float> values_;
};

}  // namespace tessera::kernels
