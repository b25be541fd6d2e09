// Results that were computed in parts, put together.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/cpu_backend.h"

namespace tessera::kernels {
namespace {

// Weights of two partial softmaxes in their union.
struct MergeWeights {
  float own = 0;
  float other = 0;
  float log_sum_exp = 0;
};

MergeWeights WeightsOf(float own, float other) {
  const float max = std::max(own, other);
  if (std::isinf(max) && max < 0) return {.log_sum_exp = max};  // no keys on either side
  const float own_share = std::exp(own - max);
  const float other_share = std::exp(other - max);
  const float sum = own_share + other_share;
  return {own_share / sum, other_share / sum, max + std::log(sum)};
}

}  // namespace

void CpuBackend::DoLogSumExpMerge(const LogSumExpMergeArgs& args) {
  const float* const block_out = args.block_out.As<float>();
  const float* const block_stats = args.block_stats.As<float>();
  float* const out = args.out.As<float>();
  float* const stats = args.stats.As<float>();
  const int64_t num_rows = args.batch * args.num_heads * args.sequence;
  pool_.ForRanges(num_rows, RowGrain(args.head_dim), 1, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      const int64_t position = row % args.sequence;
      const int64_t head = row / args.sequence % args.num_heads;
      const int64_t token = row / args.sequence / args.num_heads * args.sequence + position;
      const MergeWeights weights = WeightsOf(stats[row], block_stats[row]);
      stats[row] = weights.log_sum_exp;
      const int64_t at = (token * args.num_heads + head) * args.head_dim;
      for (int64_t i = at; i < at + args.head_dim; ++i) {
        out[i] = out[i] * weights.own + block_out[i] * weights.other;
      }
    }
  });
}

void CpuBackend::DoSumBlocks(const SumBlocksArgs& args) {
  const float* const x = args.x.As<float>();
  float* const y = args.y.As<float>();
  pool_.ForRanges(args.n, kElementGrain, kLineFloats, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      float sum = x[i];
      for (int64_t block = 1; block < args.num_blocks; ++block) sum += x[block * args.n + i];
      y[i] = sum;
    }
  });
}

}  // namespace tessera::kernels
