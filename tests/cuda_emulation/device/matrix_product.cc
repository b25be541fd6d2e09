#include "tests/cuda_emulation/device/matrix_product.h"

namespace tessera::cuda_emulation {

void AddTileProduct(const float* a, const float* b, float* c) {
  for (int i = 0; i < kTile; ++i) {
    float row[kTile];
    for (int j = 0; j < kTile; ++j) row[j] = c[i * kTile + j];
    for (int k = 0; k < kTile; ++k) {
      const float factor = a[i * kTile + k];
      for (int j = 0; j < kTile; ++j) row[j] += factor * b[k * kTile + j];
    }
    for (int j = 0; j < kTile; ++j) c[i * kTile + j] = row[j];
  }
}

}  // namespace tessera::cuda_emulation
