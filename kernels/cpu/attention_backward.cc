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

// Where the gradients of one head's keys and values are summed, [key_sequence, head_dim] each, over
// what is there or on top of it.
struct KeyValueGrad {
  MutableRows dk, dv;
  bool adds = false;
};

// One query head of one sequence. With P the probabilities and D the row sums of dout * out:
// dV = P^T dout, dP = dout V^T, dS = P * (dP - D), dQ = scale dS K, dK = scale dS^T Q
// (Dao et al. 2022, arXiv:2205.14135, appendix B.2). P, dP and dS are kept transposed. With dropout
// dV takes the probabilities that stay, scaled, and so does dS with dP, but not with D.
class BackwardHead {
 public:
  BackwardHead(const AttentionBackwardArgs& args, int64_t batch, int64_t head, ThreadMemory& memory)
      : args_(args),
        memory_(memory),
        batch_(batch),
        first_row_(batch * args.query_rows),
        head_(head),
        keep_scale_(KeepScale(args.dropout.probability)) {
    const int64_t kv_column = head / (args.num_heads / args.num_kv_heads) * args.head_dim;
    const int64_t kv_offset = batch * args.key_rows * args.kv_stride + kv_column;
    k_ = {args.k.At(kv_offset), args.kv_stride, args.head_dim};
    v_ = {args.v.At(kv_offset), args.kv_stride, args.head_dim};
    head_row_ = batch * args.num_heads + head;
  }

  // Overwrites dq of this head, or adds to it, and `grad`.
  void Run(const KeyValueGrad& grad) const {
    const int64_t num_keys = args_.key_sequence;
    const bool drops = args_.dropout.probability > 0;
    float* const block_t =
        memory_.scratch.Get((args_.head_dim + (drops ? 3 : 2) * num_keys) * kQueryBlock);
    float* const probabilities = block_t + args_.head_dim * kQueryBlock;
    float* const score_grads = probabilities + num_keys * kQueryBlock;
    float* const dropped = drops ? score_grads + num_keys * kQueryBlock : probabilities;
    const int64_t num_blocks = base::CeilDiv(args_.sequence, kQueryBlock);
    // From the last block down: it meets every key, and so starts every sum.
    for (int64_t index = num_blocks - 1; index >= 0; --index) {
      const QueryBlock block = QueryBlockAt(index, args_);
      const float beta = index == num_blocks - 1 && !grad.adds ? 0.0F : 1.0F;
      const Rows q = RowsOf(args_.q, args_.qkv_stride, block, memory_.a);
      const Rows dout = RowsOf(args_.dout, args_.out_stride, block, memory_.b);
      MakeProbabilities(block, q, block_t, probabilities);
      if (drops) {
        std::copy_n(probabilities, block.num_keys * kQueryBlock, dropped);
        DropWeights(args_.dropout, batch_, head_, block, memory_.bits, dropped);
      }
      SumOverQueries(dropped, block, dout, args_.head_dim, keep_scale_, beta, grad.dv);
      MakeScoreGrads(block, dout, block_t, probabilities, dropped, score_grads);
      MakeQueryGrads(block, score_grads);
      SumOverQueries(score_grads, block, q, args_.head_dim, args_.scale, beta, grad.dk);
    }
  }

 private:
  Rows RowsOf(const ConstArray& x, int64_t stride, const QueryBlock& block,
              RowReader& reader) const {
    return reader.Read(x.At((first_row_ + block.begin) * stride + head_ * args_.head_dim), stride,
                       block.num_rows, args_.head_dim);
  }

  // Kept by the forward pass, or made again from the log-sum-exp; zero for padding queries.
  void MakeProbabilities(const QueryBlock& block, const Rows& q, float* block_t,
                         float* probabilities) const {
    if (args_.stats_kind == AttentionStats::kProbabilities) {
      const int64_t row = head_row_ * args_.sequence + block.begin;
      const Rows kept = memory_.c.Read(args_.stats.At(row * args_.key_sequence), args_.key_sequence,
                                       block.num_rows, block.num_keys);
      TransposeBlock(kept, block.num_rows, block.num_keys, probabilities);
      return;
    }
    QueryFloats log_sum_exp;
    log_sum_exp.fill(std::numeric_limits<float>::infinity());
    std::copy_n(args_.stats.As<float>() + head_row_ * args_.query_rows + block.begin,
                block.num_rows, log_sum_exp.begin());
    TransposeBlock(q, block.num_rows, args_.head_dim, block_t);
    MultiplyKeys(k_, block.num_keys, block_t, args_.scale, probabilities, memory_.d);
    for (int64_t key = 0; key < block.num_keys; ++key) {
      float* const row = probabilities + key * kQueryBlock;
#pragma omp simd
      for (int64_t i = 0; i < kQueryBlock; ++i) row[i] = Exp(row[i] - log_sum_exp[i]);
    }
    FillHidden(args_.documents, batch_, block, 0.0F, probabilities);
  }

  // score_grads = P * (dP - D); with dropout s P' * dP - P * D, with P' what stays of P.
  void MakeScoreGrads(const QueryBlock& block, const Rows& dout, float* block_t,
                      const float* probabilities, const float* dropped, float* score_grads) const {
    const Rows out = RowsOf(args_.out, args_.out_stride, block, memory_.c);
    QueryFloats row_sums = {};
    for (int64_t i = 0; i < block.num_rows; ++i) {
      row_sums[i] = Dot(dout.data + i * dout.stride, out.data + i * out.stride, args_.head_dim);
    }
    TransposeBlock(dout, block.num_rows, args_.head_dim, block_t);
    MultiplyKeys(v_, block.num_keys, block_t, 1.0F, score_grads, memory_.d);
    for (int64_t key = 0; key < block.num_keys; ++key) {
      const float* const p = probabilities + key * kQueryBlock;
      float* const row = score_grads + key * kQueryBlock;
      if (dropped == probabilities) {
#pragma omp simd
        for (int64_t i = 0; i < kQueryBlock; ++i) row[i] = p[i] * (row[i] - row_sums[i]);
      } else {
        const float* const stays = dropped + key * kQueryBlock;
#pragma omp simd
        for (int64_t i = 0; i < kQueryBlock; ++i) {
          row[i] = stays[i] * keep_scale_ * row[i] - p[i] * row_sums[i];
        }
      }
    }
  }

  void MakeQueryGrads(const QueryBlock& block, const float* score_grads) const {
    const int64_t offset = (first_row_ + block.begin) * args_.dqkv_stride + head_ * args_.head_dim;
    // Sums are fp32 and so lie where the writer points.
    const float beta = args_.sums == base::AttentionSums::kAll ? 1.0F : 0.0F;
    const MutableRows dq =
        memory_.result.Open(args_.dq.At(offset), args_.dqkv_stride, block.num_rows, args_.head_dim);
    SumOverKeys(score_grads, block, k_, args_.scale, beta, dq, memory_.d);
    memory_.result.Store();
  }

  const AttentionBackwardArgs& args_;
  ThreadMemory& memory_;
  const int64_t batch_;
  const int64_t first_row_;
  const int64_t head_;
  const float keep_scale_;  // 1 without dropout
  HeadRows k_, v_;
  int64_t head_row_;
};

// Where the gradients of a key/value head begin in dk and dv.
int64_t OffsetOf(const AttentionBackwardArgs& args, int64_t batch, int64_t kv_head) {
  return batch * args.key_rows * args.dkv_stride + kv_head * args.head_dim;
}

bool AddsToKeys(const AttentionBackwardArgs& args) {
  return args.sums != base::AttentionSums::kNone;
}

// Heads of a group each sum their own gradients, which are then added in the order of the heads.
// [key_sequence, head_dim] of each lies in head_grads, that of the next head `next_head` floats on.
void SumGroup(const AttentionBackwardArgs& args, const float* head_grads, int64_t group_size,
              int64_t next_head, Array destination, RowWriter& writer) {
  for (int64_t row = 0; row < args.key_sequence; ++row) {
    const float* const first = head_grads + row * args.head_dim;
    float* const sum = writer.Open(destination.At(row * args.dkv_stride), args.head_dim);
    const bool adds = AddsToKeys(args);
    if (!adds) std::copy_n(first, args.head_dim, sum);
    for (int64_t h = adds ? 0 : 1; h < group_size; ++h)
      AddInto(first + h * next_head, sum, args.head_dim);
    writer.Store();
  }
}

}  // namespace

void CpuBackend::DoAttentionBackward(const AttentionBackwardArgs& args) {
  PrepareBlas();
  const int64_t group_size = args.num_heads / args.num_kv_heads;
  const int64_t head_floats = args.key_sequence * args.head_dim;
  const int64_t num_heads = args.batch * args.num_heads;
  const bool has_sums = group_size > 1 || args.dk.dtype != base::DType::kFloat32 ||
                        args.dv.dtype != base::DType::kFloat32;
  float* const head_grads = has_sums ? shared_scratch_.Get(num_heads * 2 * head_floats) : nullptr;
  pool_.ForEachTask(num_heads, [&](int thread, int64_t task) {
    const int64_t batch = task / args.num_heads;
    const int64_t head = task % args.num_heads;
    KeyValueGrad grad;
    if (has_sums) {
      float* const own = head_grads + task * 2 * head_floats;
      grad = {{own, args.head_dim}, {own + head_floats, args.head_dim}, /*adds=*/false};
    } else {
      const int64_t offset = OffsetOf(args, batch, head);
      grad = {{args.dk.As<float>() + offset, args.dkv_stride},
              {args.dv.As<float>() + offset, args.dkv_stride},
              AddsToKeys(args)};
    }
    BackwardHead(args, batch, head, thread_memory_[thread]).Run(grad);
  });
  if (!has_sums) return;
  pool_.ForEachTask(args.batch * args.num_kv_heads, [&](int thread, int64_t task) {
    const float* const sums = head_grads + task * group_size * 2 * head_floats;
    const int64_t offset = OffsetOf(args, task / args.num_kv_heads, task % args.num_kv_heads);
    RowWriter& writer = thread_memory_[thread].result;
    SumGroup(args, sums, group_size, 2 * head_floats, args.dk.At(offset), writer);
    SumGroup(args, sums + head_floats, group_size, 2 * head_floats, args.dv.At(offset), writer);
  });
}

}  // namespace tessera::kernels
