#include <array>
#include <cmath>
#include <limits>

#include "kernels/cpu/attention.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/vector_math.h"

namespace tessera::kernels {
namespace {

using base::AttentionStats;
using QueryFloats = std::array<float, kQueryBlock>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Largest score of each query.
QueryFloats MaxOverKeys(const float* scores, int64_t num_keys) {
  QueryFloats max;
  max.fill(-kInfinity);
  for (int64_t key = 0; key < num_keys; ++key) {
    const float* const row = scores + key * kQueryBlock;
#pragma omp simd
    for (int64_t i = 0; i < kQueryBlock; ++i) max[i] = row[i] > max[i] ? row[i] : max[i];
  }
  return max;
}

// Scores become exp(score - max), of a query that sees no key 0; returns the sum for each query.
QueryFloats ExponentiateScores(float* scores, QueryFloats max, int64_t num_keys) {
  for (float& value : max) value = value == -kInfinity ? 0 : value;
  QueryFloats sum = {};
  for (int64_t key = 0; key < num_keys; ++key) {
    float* const row = scores + key * kQueryBlock;
#pragma omp simd
    for (int64_t i = 0; i < kQueryBlock; ++i) {
      row[i] = Exp(row[i] - max[i]);
      sum[i] += row[i];
    }
  }
  return sum;
}

// One block of queries of one head of one sequence.
class ForwardBlock {
 public:
  ForwardBlock(const AttentionForwardArgs& args, int64_t batch, int64_t head, QueryBlock block)
      : args_(args), block_(block), batch_(batch), head_(head) {
    const int64_t query_row = batch * args.query_rows + block.begin;
    const int64_t kv_column = head / (args.num_heads / args.num_kv_heads) * args.head_dim;
    const int64_t kv_offset = batch * args.key_rows * args.kv_stride + kv_column;
    q_ = args.q.At(query_row * args.qkv_stride + head * args.head_dim);
    k_ = {args.k.At(kv_offset), args.kv_stride, args.head_dim};
    v_ = {args.v.At(kv_offset), args.kv_stride, args.head_dim};
    out_ = args.out.At(query_row * args.out_stride + head * args.head_dim);
    head_row_ = batch * args.num_heads + head;
  }

  void Run(ThreadMemory& memory) const {
    float* const queries_t = memory.scratch.Get((args_.head_dim + block_.num_keys) * kQueryBlock);
    float* const scores = queries_t + args_.head_dim * kQueryBlock;
    const Rows q = memory.a.Read(q_, args_.qkv_stride, block_.num_rows, args_.head_dim);
    TransposeBlock(q, block_.num_rows, args_.head_dim, queries_t);
    MultiplyKeys(k_, block_.num_keys, queries_t, args_.scale, scores, memory.b);
    FillHidden(args_.documents, batch_, block_, -kInfinity, scores);
    const QueryFloats max = MaxOverKeys(scores, block_.num_keys);
    const QueryFloats sum = ExponentiateScores(scores, max, block_.num_keys);
    KeepStatistics(scores, max, sum, memory.result);
    float keep_scale = 1;
    if (args_.dropout.probability > 0) {
      DropWeights(args_.dropout, batch_, head_, block_, memory.bits, scores);
      keep_scale = KeepScale(args_.dropout.probability);
    }
    const MutableRows out =
        memory.result.Open(out_, args_.out_stride, block_.num_rows, args_.head_dim);
    SumOverKeys(scores, block_, v_, 1.0F, 0.0F, out, memory.b);
    for (int64_t i = 0; i < block_.num_rows; ++i) {
      float* const row = out.data + i * out.stride;
      const float factor = sum[i] == 0 ? 0 : keep_scale / sum[i];
#pragma omp simd
      for (int64_t j = 0; j < args_.head_dim; ++j) row[j] *= factor;
    }
    memory.result.Store();
  }

 private:
  void KeepStatistics(const float* scores, const QueryFloats& max, const QueryFloats& sum,
                      RowWriter& writer) const {
    if (args_.stats_kind == AttentionStats::kProbabilities) {
      KeepProbabilities(scores, sum, writer);
      return;
    }
    float* const log_sum_exp =
        args_.stats.As<float>() + head_row_ * args_.query_rows + block_.begin;
    for (int64_t i = 0; i < block_.num_rows; ++i) log_sum_exp[i] = max[i] + std::log(sum[i]);
  }

  // Rows of probabilities, zero where the mask hides the key.
  void KeepProbabilities(const float* scores, const QueryFloats& sum, RowWriter& writer) const {
    const int64_t num_keys = args_.key_sequence;
    const int64_t first_row = head_row_ * args_.sequence + block_.begin;
    for (int64_t i = 0; i < block_.num_rows; ++i) {
      float* const row = writer.Open(args_.stats.At((first_row + i) * num_keys), num_keys);
      const float factor = sum[i] == 0 ? 0 : 1.0F / sum[i];
      for (int64_t key = 0; key < block_.num_keys; ++key) {
        row[key] = scores[key * kQueryBlock + i] * factor;
      }
      std::fill(row + block_.num_keys, row + num_keys, 0.0F);
      writer.Store();
    }
  }

  const AttentionForwardArgs& args_;
  const QueryBlock block_;
  const int64_t batch_, head_;
  ConstArray q_;
  HeadRows k_, v_;
  Array out_;
  int64_t head_row_;
};

}  // namespace

void CpuBackend::DoAttentionForward(const AttentionForwardArgs& args) {
  PrepareBlas();
  const int64_t num_blocks = base::CeilDiv(args.sequence, kQueryBlock);
  pool_.ForEachTask(args.batch * args.num_heads * num_blocks, [&](int thread, int64_t task) {
    const int64_t head_index = task / num_blocks;
    const ForwardBlock block(args, head_index / args.num_heads, head_index % args.num_heads,
                             QueryBlockAt(task % num_blocks, args));
    block.Run(thread_memory_[thread]);
  });
}

}  // namespace tessera::kernels
