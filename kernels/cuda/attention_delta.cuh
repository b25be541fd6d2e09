// The row sums of dout * out, which the backward pass of attention takes from every row's gradient.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/attention_params.cuh"
#include "kernels/cuda/reduce.cuh"

namespace tessera::kernels::cuda {

// sum of a * b over n elements, by kLanes neighbouring lanes of a warp; in all of them. All lanes
// of the warp call it.
template <int kLanes, typename T>
__device__ __forceinline__ float DotOfRows(const T* a, const T* b, int n, bool has_quads) {
  const int lane = static_cast<int>(threadIdx.x) % kLanes;
  float sum = 0;
  if (has_quads) {
    for (int i = lane * kQuad; i < n; i += kLanes * kQuad) {
      float left[kQuad];
      float right[kQuad];
      Load<kQuad>(a + i, left);
      Load<kQuad>(b + i, right);
#pragma unroll
      for (int e = 0; e < kQuad; ++e) sum = fmaf(left[e], right[e], sum);
    }
  } else {
    for (int i = lane; i < n; i += kLanes) sum = fmaf(ToFloat(a[i]), ToFloat(b[i]), sum);
  }
  return WarpReduce<kLanes>(sum, SumOp());
}

// delta[row] of the queries first + row of a head, by all threads of a block: as a kernel before
// left it, or summed here, kLanes lanes a row. 0 behind the last query.
// REQUIRES: kLanes divides 32; blockDim.x / kLanes divides num_rows.
template <int kLanes, typename T>
__device__ __forceinline__ void LoadDelta(const BackwardParams<T>& params, int64_t head,
                                          int64_t first, int num_rows, float* delta) {
  const AttentionSizes& sizes = params.sizes;
  if (params.delta != nullptr) {
    const float* const from = params.delta + sizes.StatsRow(blockIdx.z, head) + first;
    for (int row = static_cast<int>(threadIdx.x); row < num_rows; row += blockDim.x) {
      delta[row] = first + row < sizes.sequence ? from[row] : 0.0F;
    }
    return;
  }
  const auto dout = QueryHead(params.dout, params.out_stride, blockIdx.z, head, sizes);
  const auto out = QueryHead(params.out, params.out_stride, blockIdx.z, head, sizes);
  const int rows_at_once = static_cast<int>(blockDim.x) / kLanes;
  for (int row = static_cast<int>(threadIdx.x) / kLanes; row < num_rows; row += rows_at_once) {
    const int64_t query = first + row;
    const int n = query < sizes.sequence ? sizes.head_dim : 0;
    const float sum = DotOfRows<kLanes>(dout.Row(query), out.Row(query), n, sizes.has_quads);
    if (threadIdx.x % kLanes == 0) delta[row] = sum;
  }
}

}  // namespace tessera::kernels::cuda
