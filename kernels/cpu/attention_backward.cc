#include "kernels/cpu/attention.h"
#include "kernels/cpu/blas.h"
#include "kernels/cpu/cpu_backend.h"
#include "kernels/cpu/vector_math.h"

namespace tessera::kernels {
namespace {

using base::AttentionStats;

float Dot(const float* x, const float* y, int64_t n) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t j = 0; j < n; ++j) sum += x[j] * y[j];
  return sum;
}

void AddInto(const float* x, float* y, int64_t n) {
#pragma omp simd
  for (int64_t j = 0; j < n; ++j) y[j] += x[j];
}

// Where the gradients of one head's keys and values are summed.
struct KeyValueGrad {
  float* dk = nullptr;
  float* dv = nullptr;
  int64_t stride = 0;
};

// One query head of one sequence. With P the probabilities and D the row sums of dout * out:
// dV = P^T dout, dP = dout V^T, dS = P * (dP - D), dQ = scale dS K, dK = scale dS^T Q
// (Dao et al. 2022, arXiv:2205.14135, appendix B.2).
class BackwardHead {
 public:
  BackwardHead(const AttentionBackwardArgs& args, int64_t batch, int64_t head)
      : args_(args), first_row_(batch * args.sequence), head_(head) {
    const int64_t kv_column = head / (args.num_heads / args.num_kv_heads) * args.head_dim;
    k_ = args.k.As<float>() + first_row_ * args.qkv_stride + kv_column;
    v_ = args.v.As<float>() + first_row_ * args.qkv_stride + kv_column;
    stats_row_ = (batch * args.num_heads + head) * args.sequence;
  }

  static int64_t ScratchFloats(int64_t sequence) { return 2 * kQueryBlock * sequence; }

  // Overwrites dq of this head and `grad` ([sequence, head_dim] each).
  void Run(float* scratch, const KeyValueGrad& grad) const {
    const int64_t num_blocks = base::CeilDiv(args_.sequence, kQueryBlock);
    // From the last block down: it meets every key, and so starts every sum.
    for (int64_t index = num_blocks - 1; index >= 0; --index) {
      const QueryBlock block = QueryBlockAt(index, args_.sequence);
      float* const score_grads = scratch + block.num_rows * block.num_keys;
      const Probabilities probabilities = GetProbabilities(block, scratch);
      RunBlock(block, probabilities, score_grads, grad, index == num_blocks - 1 ? 0.0F : 1.0F);
    }
  }

 private:
  struct Probabilities {
    const float* values = nullptr;
    int64_t stride = 0;
  };

  const float* RowsOf(const ConstArray& x, int64_t stride, int64_t row) const {
    return x.As<float>() + (first_row_ + row) * stride + head_ * args_.head_dim;
  }

  // Kept by the forward pass, or made again from the log-sum-exp.
  Probabilities GetProbabilities(const QueryBlock& block, float* scratch) const {
    if (args_.stats_kind == AttentionStats::kProbabilities) {
      return {args_.stats.As<float>() + (stats_row_ + block.begin) * args_.sequence,
              args_.sequence};
    }
    const float* const log_sum_exp = args_.stats.As<float>() + stats_row_ + block.begin;
    Gemm({.transpose_b = Transpose::kYes,
          .m = block.num_rows,
          .n = block.num_keys,
          .k = args_.head_dim,
          .alpha = args_.scale,
          .a = RowsOf(args_.q, args_.qkv_stride, block.begin),
          .lda = args_.qkv_stride,
          .b = k_,
          .ldb = args_.qkv_stride,
          .c = scratch,
          .ldc = block.num_keys});
    for (int64_t i = 0; i < block.num_rows; ++i) {
      float* const row = scratch + i * block.num_keys;
      const int64_t num_seen = block.begin + i + 1;
      const float shift = log_sum_exp[i];
#pragma omp simd
      for (int64_t j = 0; j < num_seen; ++j) row[j] = Exp(row[j] - shift);
      std::fill(row + num_seen, row + block.num_keys, 0.0F);
    }
    return {scratch, block.num_keys};
  }

  // Fills ds[num_rows, num_keys]: dP first, then P * (dP - D) in place.
  void MakeScoreGrads(const QueryBlock& block, const Probabilities& p, float* ds) const {
    const float* const dout = RowsOf(args_.dout, args_.out_stride, block.begin);
    const float* const out = RowsOf(args_.out, args_.out_stride, block.begin);
    Gemm({.transpose_b = Transpose::kYes,
          .m = block.num_rows,
          .n = block.num_keys,
          .k = args_.head_dim,
          .a = dout,
          .lda = args_.out_stride,
          .b = v_,
          .ldb = args_.qkv_stride,
          .c = ds,
          .ldc = block.num_keys});
    for (int64_t i = 0; i < block.num_rows; ++i) {
      const int64_t offset = i * args_.out_stride;
      const float row_sum = Dot(dout + offset, out + offset, args_.head_dim);
      const float* const p_row = p.values + i * p.stride;
      float* const ds_row = ds + i * block.num_keys;
      const int64_t num_seen = block.begin + i + 1;
#pragma omp simd
      for (int64_t j = 0; j < num_seen; ++j) ds_row[j] = p_row[j] * (ds_row[j] - row_sum);
      std::fill(ds_row + num_seen, ds_row + block.num_keys, 0.0F);
    }
  }

  void RunBlock(const QueryBlock& block, const Probabilities& p, float* ds,
                const KeyValueGrad& grad, float beta) const {
    const int64_t dq_offset =
        (first_row_ + block.begin) * args_.dqkv_stride + head_ * args_.head_dim;
    AddTransposedProduct(block, p.values, p.stride, 1.0F,
                         RowsOf(args_.dout, args_.out_stride, block.begin), args_.out_stride, beta,
                         grad.dv, grad.stride);
    MakeScoreGrads(block, p, ds);
    Gemm({.m = block.num_rows,
          .n = args_.head_dim,
          .k = block.num_keys,
          .alpha = args_.scale,
          .a = ds,
          .lda = block.num_keys,
          .b = k_,
          .ldb = args_.qkv_stride,
          .c = args_.dq.As<float>() + dq_offset,
          .ldc = args_.dqkv_stride});
    AddTransposedProduct(block, ds, block.num_keys, args_.scale,
                         RowsOf(args_.q, args_.qkv_stride, block.begin), args_.qkv_stride, beta,
                         grad.dk, grad.stride);
  }

  // c[num_keys, head_dim] = alpha * x[num_rows, num_keys]^T y[num_rows, head_dim] + beta * c.
  void AddTransposedProduct(const QueryBlock& block, const float* x, int64_t x_stride, float alpha,
                            const float* y, int64_t y_stride, float beta, float* c,
                            int64_t c_stride) const {
    Gemm({.transpose_a = Transpose::kYes,
          .m = block.num_keys,
          .n = args_.head_dim,
          .k = block.num_rows,
          .alpha = alpha,
          .a = x,
          .lda = x_stride,
          .b = y,
          .ldb = y_stride,
          .beta = beta,
          .c = c,
          .ldc = c_stride});
  }

  const AttentionBackwardArgs& args_;
  const int64_t first_row_;
  const int64_t head_;
  const float* k_;
  const float* v_;
  int64_t stats_row_;
};

KeyValueGrad DestinationOf(const AttentionBackwardArgs& args, int64_t batch, int64_t kv_head) {
  const int64_t offset = batch * args.sequence * args.dqkv_stride + kv_head * args.head_dim;
  return {args.dk.As<float>() + offset, args.dv.As<float>() + offset, args.dqkv_stride};
}

// Heads of a group each sum their own gradients, which are then added in the order of the heads.
void SumGroup(const AttentionBackwardArgs& args, const float* head_grads, int64_t group_size,
              const KeyValueGrad& destination) {
  const int64_t head_floats = args.sequence * args.head_dim;
  for (int64_t row = 0; row < args.sequence; ++row) {
    float* const dk = destination.dk + row * destination.stride;
    float* const dv = destination.dv + row * destination.stride;
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
      grad = {own, own + head_floats, args.head_dim};
    }
    float* const scratch = thread_scratch_[thread].Get(BackwardHead::ScratchFloats(args.sequence));
    BackwardHead(args, batch, head).Run(scratch, grad);
  });
  if (group_size == 1) return;
  pool_.ForEachTask(args.batch * args.num_kv_heads, [&](int, int64_t task) {
    SumGroup(args, head_grads + task * group_size * 2 * head_floats, group_size,
             DestinationOf(args, task / args.num_kv_heads, task % args.num_kv_heads));
  });
}

}  // namespace tessera::kernels
