// The arithmetic of one tensor-core instruction.
#pragma once

namespace tessera::cuda_emulation {

constexpr int kTile = 16;

// c[16, 16] += a[16, 16] b[16, 16], row-major, products and sums in fp32.
void AddTileProduct(const float* a, const float* b, float* c);

}  // namespace tessera::cuda_emulation
