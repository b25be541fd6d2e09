// Matrix products by shape.
#pragma once

#include <cstdint>

#include "cost_model/base/op.h"
#include "cost_model/kernel_time.h"

namespace tessera::cost_model {

// `batch` products C[m,n] = A[m,k] B[k,n] in one kernel.
struct MatMulShape {
  int64_t m = 0, n = 0, k = 0;
  int64_t batch = 1;
  double misalignment = 0;  // of the rows of operands and result
};

// How a kernel cuts a product up.
struct MatMulTiling {
  int64_t tile_rows = 0, tile_columns = 0;
  int64_t split_k = 1;  // tiles that share the inner dimension of one output tile
  int64_t num_tiles = 0;
  int64_t num_waves = 0;  // rounds of one tile a compute unit
  double seconds = 0;     // of the arithmetic
};

// How far rows of so many 16-bit elements are from what the loads of tensor cores ask for (NVIDIA,
// "Matrix Multiplication Background User's Guide"): 0 for multiples of 16 bytes, a third more with
// every halving, 1 for an odd number of elements.
double Misalignment(int64_t elements, const RankDevice& device);

// The fastest tiling of a product that sustains `flops_per_s` on the whole device: every wave costs
// a full tile's main loop, k / split_k + tile_overhead_k steps of one row and one column more. The
// inner dimension is split while that fills units which would idle. Tile and wave quantisation:
// NVIDIA, "Matrix Multiplication Background User's Guide".
// REQUIRES: sizes are positive.
MatMulTiling FastestTiling(const MatMulShape& shape, double flops_per_s,
                           const spec::KernelSpec& kernels);

// Seconds of one kernel without its launch: the larger of arithmetic and the memory traffic
// `bytes`. `flops_per_s` is the rate of large products (RankDevice).
double ProductSeconds(const MatMulShape& shape, double flops_per_s, double bytes,
                      const RankDevice& device);

// A matrix product of the op list (kMatMul, kGroupedMatMul) with the kernels that the runtime runs
// beside it: casts of its operands to 8 bits, bias and activation, the addition to an fp32
// gradient.
KernelTime MatMulTime(const base::OpRecord& record, const RankDevice& device);

}  // namespace tessera::cost_model
