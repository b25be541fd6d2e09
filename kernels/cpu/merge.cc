// Results that were computed in parts, put together.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/add_into.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/rows.h"

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
  const float* const block_stats = args.block_stats.As<float>();
  float* const stats = args.stats.As<float>();
  const int64_t num_rows = args.batch * args.num_heads * args.sequence;
  pool_.ForRanges(num_rows, RowGrain(args.head_dim), 1, [&](int64_t begin, int64_t end) {
    RowReader block_reader;
    RowWriter out_writer;
    for (int64_t row = begin; row < end; ++row) {
      const int64_t position = row % args.sequence;
      const int64_t head = row / args.sequence % args.num_heads;
      const int64_t token = row / args.sequence / args.num_heads * args.sample_rows + position;
      const int64_t stats_at = row / args.sequence * args.sample_rows + position;
      const MergeWeights weights = WeightsOf(stats[stats_at], block_stats[stats_at]);
      stats[stats_at] = weights.log_sum_exp;
      const int64_t at = (token * args.num_heads + head) * args.head_dim;
      const float* const block_out = block_reader.Read(args.block_out.At(at), args.head_dim);
      float* const out = out_writer.Load(args.out.At(at), args.head_dim);
#pragma omp simd
      for (int64_t i = 0; i < args.head_dim; ++i) {
        out[i] = out[i] * weights.own + block_out[i] * weights.other;
      }
      out_writer.Store();
    }
  });
}

void CpuBackend::DoSumBlocks(const SumBlocksArgs& args) {
  pool_.ForRanges(args.n, kElementGrain, kLineElements, [&](int64_t begin, int64_t end) {
    RowReader x;
    RowWriter y;
    ForChunks(begin, end, [&](int64_t first, int64_t count) {
      const float* const block_0 = x.Read(args.x.At(first), count);
      float* const sums = y.Open(args.y.At(first), count);
      if (block_0 != sums) std::copy_n(block_0, count, sums);
      for (int64_t block = 1; block < args.num_blocks; ++block) {
        AddInto(x.Read(args.x.At(block * args.n + first), count), sums, count);
      }
      y.Store();
    });
  });
}

}  // namespace tessera::kernels
