#include <cmath>
#include <limits>

#include "kernels/cpu/attention.h"
#include "kernels/cpu/blas.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/vector_math.h"

namespace tessera::kernels {
namespace {

using base::AttentionStats;

// scores[0, n) become exp(score - max); returns {max, sum}.
struct MaxAndSum {
  float max = 0;
  float sum = 0;
};

MaxAndSum ExponentiateRow(float* scores, int64_t n) {
  float max = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : max)
  for (int64_t j = 0; j < n; ++j) max = scores[j] > max ? scores[j] : max;
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < n; ++j) {
    const float value = Exp(scores[j] - max);
    scores[j] = value;
    sum += value;
  }
  return {max, sum};
}

void ScaleRow(float* x, float factor, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) x[j] *= factor;
}

// One block of queries of one head of one sequence.
class ForwardBlock {
 public:
  ForwardBlock(const AttentionForwardArgs& args, int64_t batch, int64_t head, QueryBlock block)
      : args_(args), block_(block) {
    const int64_t kv_head = head / (args.num_heads / args.num_kv_heads);
    const int64_t first_row = batch * args.sequence;
    const int64_t query_row = first_row + block.begin;
    q_ = args.q.As<float>() + query_row * args.qkv_stride + head * args.head_dim;
    k_ = args.k.As<float>() + first_row * args.qkv_stride + kv_head * args.head_dim;
    v_ = args.v.As<float>() + first_row * args.qkv_stride + kv_head * args.head_dim;
    out_ = args.out.As<float>() + query_row * args.out_stride + head * args.head_dim;
    stats_row_ = (batch * args.num_heads + head) * args.sequence + block.begin;
  }

  void Run(Scratch& scratch) const {
    if (args_.stats_kind == AttentionStats::kProbabilities) {
      float* const probabilities = args_.stats.As<float>() + stats_row_ * args_.sequence;
      MakeProbabilities(probabilities);
      MultiplyByValues(probabilities, args_.sequence);
    } else {
      float* const scores = scratch.Get(block_.num_rows * block_.num_keys + block_.num_rows);
      float* const inverse_sums = scores + block_.num_rows * block_.num_keys;
      ExponentiateScores(scores, inverse_sums);
      MultiplyByValues(scores, block_.num_keys);
      for (int64_t i = 0; i < block_.num_rows; ++i) {
        ScaleRow(out_ + i * args_.out_stride, inverse_sums[i], args_.head_dim);
      }
    }
  }

 private:
  int64_t NumSeenBy(int64_t row) const { return block_.begin + row + 1; }

  void MultiplyByKeys(float* scores, int64_t stride) const {
    Gemm({.transpose_b = Transpose::kYes,
          .m = block_.num_rows,
          .n = block_.num_keys,
          .k = args_.head_dim,
          .alpha = args_.scale,
          .a = q_,
          .lda = args_.qkv_stride,
          .b = k_,
          .ldb = args_.qkv_stride,
          .c = scores,
          .ldc = stride});
  }

  void MultiplyByValues(const float* probabilities, int64_t stride) const {
    Gemm({.m = block_.num_rows,
          .n = args_.head_dim,
          .k = block_.num_keys,
          .a = probabilities,
          .lda = stride,
          .b = v_,
          .ldb = args_.qkv_stride,
          .c = out_,
          .ldc = args_.out_stride});
  }

  // Normalised rows in the place that keeps them, zero from the diagonal on.
  void MakeProbabilities(float* probabilities) const {
    const int64_t stride = args_.sequence;
    MultiplyByKeys(probabilities, stride);
    for (int64_t i = 0; i < block_.num_rows; ++i) {
      float* const row = probabilities + i * stride;
      const MaxAndSum stats = ExponentiateRow(row, NumSeenBy(i));
      ScaleRow(row, 1.0F / stats.sum, NumSeenBy(i));
      std::fill(row + NumSeenBy(i), row + stride, 0.0F);
    }
  }

  // Rows not yet divided by their sum (the output is, which is narrower), and their log-sum-exp.
  void ExponentiateScores(float* scores, float* inverse_sums) const {
    float* const log_sum_exp = args_.stats.As<float>() + stats_row_;
    MultiplyByKeys(scores, block_.num_keys);
    for (int64_t i = 0; i < block_.num_rows; ++i) {
      float* const row = scores + i * block_.num_keys;
      const MaxAndSum stats = ExponentiateRow(row, NumSeenBy(i));
      std::fill(row + NumSeenBy(i), row + block_.num_keys, 0.0F);
      inverse_sums[i] = 1.0F / stats.sum;
      log_sum_exp[i] = stats.max + std::log(stats.sum);
    }
  }

  const AttentionForwardArgs& args_;
  const QueryBlock block_;
  const float* q_;
  const float* k_;
  const float* v_;
  float* out_;
  int64_t stats_row_;
};

}  // namespace

void CpuBackend::DoAttentionForward(const AttentionForwardArgs& args) {
  PrepareBlas();
  const int64_t num_blocks = base::CeilDiv(args.sequence, kQueryBlock);
  pool_.ForEachTask(args.batch * args.num_heads * num_blocks, [&](int thread, int64_t task) {
    const int64_t head_index = task / num_blocks;
    const ForwardBlock block(args, head_index / args.num_heads, head_index % args.num_heads,
                             QueryBlockAt(task % num_blocks, args.sequence));
    block.Run(thread_scratch_[thread]);
  });
}

}  // namespace tessera::kernels
