#include <array>
#include <limits>

#include "kernels/cpu/add_into.h"
#include "kernels/cpu/attention.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/vector_math.h"

namespace tessera::kernels {
namespace {

using base::AttentionStats;
using QueryFloats = std::array<float, kQueryBlock>;

float Dot(const float* x, const float* y, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < n; ++j) sum += x[j] * y[j];
  return sum;
}

// Where the gradients of one head's keys and values are summed, [sequence, head_dim] each.
struct KeyValueGrad {
  MutableHeadRows dk, dv;
};

// One query head of one sequence. With P the probabilities and D the row sums of dout * out:
// dV = P^T dout, dP = dout V^T, dS = P * (dP - D), dQ = scale dS K, dK = scale dS^T Q
// (Dao et al. 2022, arXiv:2205.14135, appendix B.2). P, dP and dS are kept transposed.
class BackwardHead {
 public:
  BackwardHead(const AttentionBackwardArgs& args, int64_t batch, int64_t head)
      : args_(args), first_row_(batch * args.sequence), head_(head) {
    const int64_t kv_column = head / (args.num_heads / args.num_kv_heads) * args.head_dim;
    const int64_t kv_offset = first_row_ * args.qkv_stride + kv_column;
    k_ = {args.k.As<float>() + kv_offset, args.qkv_stride, args.head_dim};
    v_ = {args.v.As<float>() + kv_offset, args.qkv_stride, args.head_dim};
    stats_row_ = (batch * args.num_heads + head) * args.sequence;
  }

  // Overwrites dq of this head, and `grad`.
  void Run(Scratch& scratch, const KeyValueGrad& grad) const {
    float* const block_t = scratch.Get((args_.head_dim + 2 * args_.sequence) * kQueryBlock);
    float* const probabilities = block_t + args_.head_dim * kQueryBlock;
    float* const score_grads = probabilities + args_.sequence * kQueryBlock;
    const int64_t num_blocks = base::CeilDiv(args_.sequence, kQueryBlock);
    // From the last block down: it meets every key, and so starts every sum.
    for (int64_t index = num_blocks - 1; index >= 0; --index) {
      const QueryBlock block = QueryBlockAt(index, args_.sequence);
      const float beta = index == num_blocks - 1 ? 0.0F : 1.0F;
      const HeadRows q = RowsOf(args_.q, args_.qkv_stride, block.begin);
      const HeadRows dout = RowsOf(args_.dout, args_.out_stride, block.begin);
      const int64_t dq_offset =
          (first_row_ + block.begin) * args_.dqkv_stride + head_ * args_.head_dim;
      MakeProbabilities(block, q, block_t, probabilities);
      SumOverQueries(probabilities, block, dout, 1.0F, beta, grad.dv);
      MakeScoreGrads(block, dout, block_t, probabilities, score_grads);
      SumOverKeys(score_grads, block, k_, args_.scale,
                  {args_.dq.As<float>() + dq_offset, args_.dqkv_stride});
      SumOverQueries(score_grads, block, q, args_.scale, beta, grad.dk);
    }
  }

 private:
  HeadRows RowsOf(const ConstArray& x, int64_t stride, int64_t row) const {
    return {x.As<float>() + (first_row_ + row) * stride + head_ * args_.head_dim, stride,
            args_.head_dim};
  }

  // Kept by the forward pass, or made again from the log-sum-exp; zero for padding queries.
  void MakeProbabilities(const QueryBlock& block, const HeadRows& q, float* block_t,
                         float* probabilities) const {
    const int64_t stats_row = stats_row_ + block.begin;
    if (args_.stats_kind == AttentionStats::kProbabilities) {
      TransposeBlock(args_.stats.As<float>() + stats_row * args_.sequence, args_.sequence,
                     block.num_rows, block.num_keys, probabilities);
      return;
    }
    QueryFloats log_sum_exp;
    log_sum_exp.fill(std::numeric_limits<float>::infinity());
    std::copy_n(args_.stats.As<float>() + stats_row, block.num_rows, log_sum_exp.begin());
    TransposeBlock(q.data, q.stride, block.num_rows, args_.head_dim, block_t);
    MultiplyKeys(k_, block.num_keys, block_t, args_.scale, probabilities);
    for (int64_t key = 0; key < block.num_keys; ++key) {
      float* const row = probabilities + key * kQueryBlock;
#pragma omp simd
      for (int64_t i = 0; i < kQueryBlock; ++i) row[i] = Exp(row[i] - log_sum_exp[i]);
    }
    FillHidden(block, 0.0F, probabilities);
  }

  // score_grads = P * (dP - D).
  void MakeScoreGrads(const QueryBlock& block, const HeadRows& dout, float* block_t,
                      const float* probabilities, float* score_grads) const {
    const HeadRows out = RowsOf(args_.out, args_.out_stride, block.begin);
    QueryFloats row_sums = {};
    for (int64_t i = 0; i < block.num_rows; ++i) {
      row_sums[i] = Dot(dout.From(i).data, out.From(i).data, args_.head_dim);
    }
    TransposeBlock(dout.data, dout.stride, block.num_rows, args_.head_dim, block_t);
    MultiplyKeys(v_, block.num_keys, block_t, 1.0F, score_grads);
    for (int64_t key = 0; key < block.num_keys; ++key) {
      const float* const p = probabilities + key * kQueryBlock;
      float* const row = score_grads + key * kQueryBlock;
#pragma omp simd
      for (int64_t i = 0; i < kQueryBlock; ++i) row[i] = p[i] * (row[i] - row_sums[i]);
    }
  }

  const AttentionBackwardArgs& args_;
  const int64_t first_row_;
  const int64_t head_;
  HeadRows k_, v_;
  int64_t stats_row_;
};

KeyValueGrad DestinationOf(const AttentionBackwardArgs& args, int64_t batch, int64_t kv_head) {
  const int64_t offset = batch * args.sequence * args.dqkv_stride + kv_head * args.head_dim;
  return {{args.dk.As<float>() + offset, args.dqkv_stride},
          {args.dv.As<float>() + offset, args.dqkv_stride}};
}

// Heads of a group each sum their own gradients, which are then added in the order of the heads.
void SumGroup(const AttentionBackwardArgs& args, const float* head_grads, int64_t group_size,
              const KeyValueGrad& destination) {
  const int64_t head_floats = args.sequence * args.head_dim;
  for (int64_t row = 0; row < args.sequence; ++row) {
    float* const dk = destination.dk.data + row * destination.dk.stride;
    float* const dv = destination.dv.data + row * destination.dv.stride;
    for (int64_t h = 0; h < group_size; ++h) {
      const float* const head_dk = head_grads + h * 2 * head_floats + row * args.head_dim;
      if (h == 0) {
        std::copy_n(head_dk, args.head_dim, dk);
        std::copy_n(head_dk + head_floats, args.head_dim, dv);
      } else {
        AddInto(head_dk, dk, args.head_dim);
        AddInto(head_dk + head_floats, dv, args.head_dim);
      }
    }
  }
}

}  // namespace

void CpuBackend::DoAttentionBackward(const AttentionBackwardArgs& args) {
  PrepareBlas();
  const int64_t group_size = args.num_heads / args.num_kv_heads;
  const int64_t head_floats = args.sequence * args.head_dim;
  const int64_t num_heads = args.batch * args.num_heads;
  float* const head_grads =
      group_size > 1 ? shared_scratch_.Get(num_heads * 2 * head_floats) : nullptr;
  pool_.ForEachTask(num_heads, [&](int thread, int64_t task) {
    const int64_t batch = task / args.num_heads;
    const int64_t head = task % args.num_heads;
    KeyValueGrad grad = DestinationOf(args, batch, head / group_size);
    if (group_size > 1) {
      float* const own = head_grads + task * 2 * head_floats;
      grad = {{own, args.head_dim}, {own + head_floats, args.head_dim}};
    }
    BackwardHead(args, batch, head).Run(thread_scratch_[thread], grad);
  });
  if (group_size == 1) return;
  pool_.ForEachTask(args.batch * args.num_kv_heads, [&](int, int64_t task) {
    SumGroup(args, head_grads + task * group_size * 2 * head_floats, group_size,
             DestinationOf(args, task / args.num_kv_heads, task % args.num_kv_heads));
  });
}

}  // namespace tessera::kernels
