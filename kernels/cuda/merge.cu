// Results that were computed in parts, put together.
#include <algorithm>

#include "cost_model/base/math.h"
#include "kernels/cuda/elementwise.cuh"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/launchers.h"
#include "kernels/cuda/reduce.cuh"
#include "kernels/cuda/vectors.cuh"

namespace tessera::kernels::cuda {
namespace {

constexpr int kThreads = 256;

template <typename Block, typename Out>
struct MergeParams {
  const Block* block_out;
  const float* block_stats;
  Out* out;
  float* stats;
  int64_t num_rows;  // a row is one head of one token
  int64_t sequence, num_heads, head_dim;
  int64_t sample_rows;  // of a sample in the arrays
};

// blockDim.x threads, a power of two up to a warp, share a row.
template <typename Block, typename Out, int kSize>
__global__ void __launch_bounds__(kThreads) MergeKernel(MergeParams<Block, Out> params) {
  const int64_t row = int64_t{blockIdx.x} * blockDim.y + threadIdx.y;
  const bool is_row = row < params.num_rows;
  const int64_t token = row / params.num_heads;
  const int64_t head = row - token * params.num_heads;
  const int64_t batch = token / params.sequence;
  const int64_t position = token - batch * params.sequence;
  const int64_t stats_at = (batch * params.num_heads + head) * params.sample_rows + position;
  const int64_t out_at =
      ((batch * params.sample_rows + position) * params.num_heads + head) * params.head_dim;
  const float own = is_row ? params.stats[stats_at] : 0.0F;
  const float other = is_row ? params.block_stats[stats_at] : 0.0F;
  __syncwarp();  // the row's threads have read its statistic before one of them replaces it
  if (!is_row) return;
  const float max = fmaxf(own, other);
  const bool has_keys = !(max == -INFINITY);
  const float own_share = has_keys ? expf(own - max) : 0.0F;
  const float other_share = has_keys ? expf(other - max) : 0.0F;
  const float sum = own_share + other_share;
  if (threadIdx.x == 0) params.stats[stats_at] = has_keys ? max + logf(sum) : max;
  const float own_weight = has_keys ? own_share / sum : 0.0F;
  const float other_weight = has_keys ? other_share / sum : 0.0F;
  const Block* const from = params.block_out + out_at;
  Out* const to = params.out + out_at;
  for (int64_t at = int64_t{threadIdx.x} * kSize; at < params.head_dim;
       at += int64_t{blockDim.x} * kSize) {
    float values[kSize];
    float others[kSize];
    Load<kSize>(to + at, values);
    Load<kSize>(from + at, others);
#pragma unroll
    for (int i = 0; i < kSize; ++i) {
      values[i] = values[i] * own_weight + others[i] * other_weight;
    }
    Store<kSize>(values, to + at);
  }
}

template <typename Block, typename Out, int kSize>
void LaunchMerge(const LaunchContext& context, const MergeParams<Block, Out>& params) {
  unsigned row_threads = 1;
  while (row_threads < kWarpSize && row_threads * kSize < params.head_dim) row_threads *= 2;
  const unsigned rows_per_block = kThreads / row_threads;
  const LaunchShape shape{
      dim3(static_cast<unsigned>(base::CeilDiv(params.num_rows, rows_per_block))),
      dim3(row_threads, rows_per_block)};
  Launch("LogSumExpMerge", MergeKernel<Block, Out, kSize>, shape, context.stream, params);
}

template <typename Block, typename Out>
void Merge(const LaunchContext& context, const LogSumExpMergeArgs& args) {
  const MergeParams<Block, Out> params{.block_out = args.block_out.As<Block>(),
                                       .block_stats = args.block_stats.As<float>(),
                                       .out = args.out.As<Out>(),
                                       .stats = args.stats.As<float>(),
                                       .num_rows = args.batch * args.sequence * args.num_heads,
                                       .sequence = args.sequence,
                                       .num_heads = args.num_heads,
                                       .head_dim = args.head_dim,
                                       .sample_rows = args.sample_rows};
  if (CanVectorize(kPairSize<Block, Out>, {params.block_out, params.out}, {args.head_dim})) {
    LaunchMerge<Block, Out, kPairSize<Block, Out>>(context, params);
  } else {
    LaunchMerge<Block, Out, 1>(context, params);
  }
}

template <typename In, typename Out>
struct SumBlocksOp {
  const In* x;  // y may be its first block
  Out* y;
  int64_t n, num_blocks;

  template <int kSize>
  __device__ void Run(int64_t i) const {
    float sums[kSize];
    Load<kSize>(x + i, sums);
    for (int64_t block = 1; block < num_blocks; ++block) {
      float values[kSize];
      Load<kSize>(x + block * n + i, values);
#pragma unroll
      for (int j = 0; j < kSize; ++j) sums[j] += values[j];
    }
    Store<kSize>(sums, y + i);
  }
};

template <typename In, typename Out>
void Sum(const LaunchContext& context, const SumBlocksArgs& args) {
  constexpr int kSize = kPairSize<In, Out>;
  LaunchFlat<kSize>(
      context, "sum of blocks", args.n, CanVectorize(kSize, {args.x.data, args.y.data}, {args.n}),
      SumBlocksOp<In, Out>{args.x.As<In>(), args.y.As<Out>(), args.n, args.num_blocks});
}

}  // namespace

void LogSumExpMerge(const LaunchContext& context, const LogSumExpMergeArgs& args) {
  WithFloatType(args.block_out.dtype, [&](auto tag) {
    using Block = typename decltype(tag)::Type;
    if (args.out.dtype == base::DType::kFloat32) {
      Merge<Block, float>(context, args);
    } else {
      Merge<Block, Block>(context, args);
    }
  });
}

void SumBlocks(const LaunchContext& context, const SumBlocksArgs& args) {
  WithFloatType(args.x.dtype, [&](auto tag) {
    using In = typename decltype(tag)::Type;
    if (args.y.dtype == base::DType::kFloat32) {
      Sum<In, float>(context, args);
    } else {
      Sum<In, In>(context, args);
    }
  });
}

}  // namespace tessera::kernels::cuda
