// Arguments of every operation of the backend interface. One alphabet for shapes: rows = tokens
// (batch * sequence, batch slowest), width = features. Gradients of parameters accumulate (+=);
// everything else overwrites.
//
// Types: activations, their gradients and parameters (weights, biases, gamma, beta, tables) have
// one type, the compute type: fp32, bf16 or fp16. Gradients of parameters, statistics
// (mean, rstd, log-sum-exp, max, sums, losses) and optimizer state are fp32. Probabilities that
// unfused attention keeps have the compute type. All sums are formed in fp32 at least.
#pragma once

#include <cstdint>

#include "cost_model/base/op.h"
#include "cost_model/base/token_positions.h"
#include "kernels/array.h"
#include "kernels/document_args.h"
#include "kernels/dropout_args.h"

namespace tessera::kernels {

// c[m, n] = op(a) op(b), or c += op(a) op(b); then the epilogue. a and b have one type; c has
// theirs or, without epilogue, fp32. Row-major; lda, ldb, ldc are row strides of the arrays as
// stored.
struct MatMulArgs {
  ConstArray a;  // kNN, kNT: [m, k]; kTN: [k, m]
  ConstArray b;  // kNN, kTN: [k, n]; kNT: [n, k]
  Array c;       // [m, n]
  int64_t m = 0, n = 0, k = 0;
  int64_t lda = 0, ldb = 0, ldc = 0;
  base::MatMulLayout layout = base::MatMulLayout::kNT;
  bool accumulate = false;  // c +=; only with Epilogue::kNone
  base::Epilogue epilogue = base::Epilogue::kNone;
  ConstArray bias;  // [n], kBias and kBiasGelu; the latter may go without
  Array aux;        // [m, n], row stride ldc: written by kBiasGelu, read by kGeluGrad
};

// y = (x - mean) * rstd * gamma + beta, row by row. mean and beta are absent for RMSNorm, where
// rstd = 1 / sqrt(mean(x^2) + epsilon).
struct NormForwardArgs {
  ConstArray x;      // [num_rows, width]
  ConstArray gamma;  // [width]
  ConstArray beta;   // [width]; LayerNorm only
  Array y;           // [num_rows, width]; must not alias x, which the backward pass reads
  Array mean;        // [num_rows]; LayerNorm only
  Array rstd;        // [num_rows]
  int64_t num_rows = 0, width = 0;
  float epsilon = 0;
};

struct NormBackwardArgs {
  ConstArray dy;             // [num_rows, width]
  ConstArray x;              // [num_rows, width]
  ConstArray gamma;          // [width]
  ConstArray mean;           // [num_rows]; LayerNorm only
  ConstArray rstd;           // [num_rows]
  ConstArray residual_grad;  // [num_rows, width] or absent: dx = residual_grad + gradient of norm
  Array dx;                  // [num_rows, width]; may alias residual_grad or dy
  Array dgamma;              // [width], accumulates
  Array dbeta;               // [width], accumulates; LayerNorm only
  int64_t num_rows = 0, width = 0;
};

// y = x + residual + bias; with dropout, of x + bias alone: y = residual + dropout(x + bias).
struct ResidualAddArgs {
  ConstArray x;         // [num_rows, width]
  ConstArray residual;  // [num_rows, width]
  ConstArray bias;      // [width] or absent
  Array y;              // [num_rows, width]; may alias x or residual
  int64_t num_rows = 0, width = 0;
  RowDropout dropout;
};

// dbias[j] += sum over rows of dy[i, j].
struct BiasGradArgs {
  ConstArray dy;  // [num_rows, width], row stride `stride`
  Array dbias;    // [width], accumulates
  int64_t num_rows = 0, width = 0, stride = 0;
};

// y = silu(gate) * up * row_weight, with gate = gate_up[:, 0:width], up = gate_up[:,
// width:2*width].
struct SwiGluForwardArgs {
  ConstArray gate_up;     // [num_rows, 2 * width]
  ConstArray row_weight;  // fp32 [num_rows]; absent: 1
  Array y;                // [num_rows, width]
  int64_t num_rows = 0, width = 0;
};

struct SwiGluBackwardArgs {
  ConstArray dy;          // [num_rows, width]
  ConstArray gate_up;     // [num_rows, 2 * width]
  ConstArray row_weight;  // fp32 [num_rows]; absent: 1
  Array dgate_up;         // [num_rows, 2 * width]; may alias gate_up
  Array dweight;  // fp32 [num_rows], overwritten: sum over the row of dy * silu(gate) * up; there
                  // where row_weight is
  int64_t num_rows = 0, width = 0;
};

// Rotates q and k in place, rotate-half form: for i < head_dim/2 the pair (x[i], x[i + head_dim/2])
// turns by position * inverse_frequency[i] (by its negative when `inverse`, the backward pass).
// Row r is token positions.Of(r % sequence) of sample r / sequence; its position counts from the
// token's document.
struct RopeArgs {
  Array qk;  // [num_rows, num_heads, head_dim] with row stride `stride`: q heads, then k heads
  // [head_dim / 2], host memory; in double, as late positions turn many times.
  const double* inverse_frequency = nullptr;
  int64_t num_rows = 0, sequence = 0, num_heads = 0, head_dim = 0, stride = 0;
  bool inverse = false;
  base::TokenPositions positions;
  DocumentStarts documents;
};

// softmax(q k^T * scale) v over the keys that the mask shows, of the query's own document. A query
// that sees none has out 0 and log-sum-exp -infinity. Head h of q reads kv head
// h / (num_heads / num_kv_heads); each head is head_dim wide, heads adjacent.
//
// A call may take a part of the tokens that lie in the arrays: token i of sample b is row
// b * query_rows + i of q, out, dout, dq and the log-sum-exps, b * key_rows + i of k, v, dk and dv.
// What is 0 by default is as said beside it; backends get it filled in.
//
// Dropout drops probabilities after the softmax: statistics are those without it, so that parts
// merge as they do without.
struct AttentionForwardArgs {
  ConstArray q;     // row stride qkv_stride
  ConstArray k, v;  // row stride kv_stride
  Array out;        // row stride out_stride
  Array stats;      // AttentionStats: log-sum-exp [batch, num_heads, query_rows] or probabilities
                    // [batch, num_heads, sequence, key_sequence], zero where a key is hidden
  base::AttentionStats stats_kind = base::AttentionStats::kLogSumExp;
  base::AttentionMask mask = base::AttentionMask::kCausal;
  int64_t batch = 0, sequence = 0, num_heads = 0, num_kv_heads = 0, head_dim = 0;
  int64_t key_sequence = 0;  // 0: sequence; under a causal mask no less than that
  int64_t query_rows = 0;    // 0: sequence
  int64_t key_rows = 0;      // 0: key_sequence
  int64_t qkv_stride = 0, out_stride = 0;
  int64_t kv_stride = 0;  // 0: qkv_stride
  float scale = 1;
  AttentionDropout dropout;
  AttentionDocuments documents;
};

// Of a call that sees a part of the keys, out and the log-sum-exps are those over all of them: dq,
// dk and dv are then this part's share of the gradients.
struct AttentionBackwardArgs {
  ConstArray dout;        // as `out`, row stride out_stride
  ConstArray q, k, v;     // as in the forward pass
  ConstArray out, stats;  // as the forward pass wrote them
  Array dq;               // row stride dqkv_stride
  Array dk, dv;           // row stride dkv_stride
  base::AttentionStats stats_kind = base::AttentionStats::kLogSumExp;
  base::AttentionMask mask = base::AttentionMask::kCausal;
  // Gradients that are fp32 whatever the compute type and added to what is there. Others have the
  // compute type and overwrite.
  base::AttentionSums sums = base::AttentionSums::kNone;
  int64_t batch = 0, sequence = 0, num_heads = 0, num_kv_heads = 0, head_dim = 0;
  int64_t key_sequence = 0, query_rows = 0, key_rows = 0;  // as in the forward pass
  int64_t qkv_stride = 0, out_stride = 0, dqkv_stride = 0;
  int64_t kv_stride = 0;   // 0: qkv_stride
  int64_t dkv_stride = 0;  // 0: dqkv_stride
  float scale = 1;
  AttentionDropout dropout;      // as in the forward pass
  AttentionDocuments documents;  // as in the forward pass
};

// out[r] = table[token - vocab_begin] where the token lies in [vocab_begin, vocab_begin +
// num_vocab_rows), else zero: the partial sum of a vocabulary-parallel embedding.
struct EmbeddingForwardArgs {
  ConstArray tokens;  // int32 [num_rows]
  ConstArray table;   // [num_vocab_rows, width]
  Array out;          // [num_rows, width]
  int64_t num_rows = 0, width = 0, vocab_begin = 0, num_vocab_rows = 0;
};

// dtable[token] += dout[r], rows in ascending order (deterministic).
struct EmbeddingBackwardArgs {
  ConstArray tokens;  // int32 [num_rows]
  ConstArray dout;    // [num_rows, width]
  Array dtable;       // [num_vocab_rows, width], accumulates
  int64_t num_rows = 0, width = 0, vocab_begin = 0, num_vocab_rows = 0;
};

// x[r] += table[position of row r]: with i = first_row + r, row r is token positions.Of(i %
// sequence) of sample i / sequence; its position counts from the token's document.
struct PositionForwardArgs {
  ConstArray table;  // [max_sequence, width]
  Array x;           // [num_rows, width], in place
  int64_t num_rows = 0, width = 0, first_row = 0, sequence = 0;
  base::TokenPositions positions;
  DocumentStarts documents;
};

// dtable[position of row r] += dx[r], rows in ascending order.
struct PositionBackwardArgs {
  ConstArray dx;  // [num_rows, width]
  Array dtable;   // [max_sequence, width], accumulates
  int64_t num_rows = 0, width = 0, first_row = 0, sequence = 0;
  base::TokenPositions positions;
  DocumentStarts documents;
};

// Vocabulary-parallel softmax cross-entropy in three passes; the caller reduces `max` (max) and
// `sum_exp`, `target_logit` (sum) over the tensor-parallel group in between. Only the first
// num_valid columns hold real vocabulary; the padding behind them is never read.
struct CrossEntropyMaxArgs {
  ConstArray logits;  // [num_rows, num_columns]
  Array max;          // [num_rows]; -infinity where num_valid is 0
  int64_t num_rows = 0, num_columns = 0, num_valid = 0;
};

struct CrossEntropySumExpArgs {
  ConstArray logits;   // [num_rows, num_columns]
  ConstArray labels;   // int32 [num_rows], global vocabulary index
  ConstArray max;      // [num_rows], over the whole vocabulary
  Array sum_exp;       // [num_rows]: sum over valid columns of exp(logit - max)
  Array target_logit;  // [num_rows]: logit - max at the label, 0 where another rank holds it
  int64_t num_rows = 0, num_columns = 0, num_valid = 0, vocab_begin = 0;
};

// loss[r] = log(sum_exp) - target_logit; logits become their gradient in place:
// (softmax - one_hot(label)) * grad_scale, 0 in the padding columns. A row whose label is negative
// has neither loss nor gradient. Adds the losses to *loss_sum, in double and in a fixed order.
struct CrossEntropyGradArgs {
  Array logits;                // [num_rows, num_columns], in place
  ConstArray labels;           // int32 [num_rows]
  ConstArray max;              // [num_rows]
  ConstArray sum_exp;          // [num_rows], over the whole vocabulary
  ConstArray target_logit;     // [num_rows], of the whole vocabulary
  Array loss;                  // [num_rows]
  double* loss_sum = nullptr;  // device memory, accumulates
  int64_t num_rows = 0, num_columns = 0, num_valid = 0, vocab_begin = 0;
  float grad_scale = 1;
};

// *sum += sum of x[i]^2, accumulated in double, in a fixed order for a given n.
struct SumOfSquaresArgs {
  ConstArray x;
  double* sum = nullptr;  // device memory, accumulates
  int64_t n = 0;
};

// AdamW with decoupled weight decay and bias correction (Loshchilov & Hutter 2019):
// g = grad * grad_scale; m, v updated; p -= lr * (m_hat / (sqrt(v_hat) + epsilon) + decay * p).
// With master weights p is `master`, and `param` becomes its value in the compute type.
struct AdamWArgs {
  Array param;      // [n]
  Array master;     // [n] fp32; absent where param is fp32
  ConstArray grad;  // [n]
  Array m, v;       // [n]
  int64_t n = 0;
  float lr = 0, beta1 = 0, beta2 = 0, epsilon = 0, weight_decay = 0;
  float grad_scale = 1;
  int64_t step = 1;  // from 1, for the bias correction
};

// y = x where an element stays, times 1 / (1 - probability), else 0. The backward pass is the same
// operation on the gradient.
struct DropoutArgs {
  ConstArray x;  // [num_rows, width]
  Array y;       // [num_rows, width]; may alias x
  int64_t num_rows = 0, width = 0;
  RowDropout dropout;
};

// out[r] = x[source_row[r]] * scale[r], zeros where source_row is negative: tokens in the order of
// their experts, and the gradient of TokenUnpermute.
struct TokenPermuteArgs {
  ConstArray x;           // [num_tokens, width]
  ConstArray source_row;  // int32 [num_rows]
  ConstArray scale;       // fp32 [num_rows] or absent
  Array out;              // [num_rows, width]
  int64_t num_rows = 0, width = 0, num_tokens = 0;
};

// out[t] = sum over j < copies, ascending, of x[routed_row[t, j]] * weight[t, j]; a negative row
// adds nothing: what the experts made of a token, and the gradient of TokenPermute.
struct TokenUnpermuteArgs {
  ConstArray x;           // [num_rows, width]
  ConstArray routed_row;  // int32 [num_tokens, copies]
  ConstArray weight;      // fp32 [num_tokens, copies] or absent
  Array out;              // [num_tokens, width]
  int64_t num_rows = 0, width = 0, num_tokens = 0, copies = 0;
};

// Merges attention over two sets of keys (ring attention: Liu et al. 2023, arXiv:2310.01889):
// stats = log(exp(stats) + exp(block_stats)), out = out exp(stats_before - stats) + block_out
// exp(block_stats - stats). A row without keys has stats -infinity and counts for nothing.
struct LogSumExpMergeArgs {
  ConstArray block_out;    // compute type [batch * sequence, num_heads * head_dim]
  ConstArray block_stats;  // fp32 [batch, num_heads, sequence]
  Array out;               // fp32 or compute type, as block_out, in place
  Array stats;             // fp32, as block_stats, in place
  int64_t batch = 0, sequence = 0, num_heads = 0, head_dim = 0;
  // Tokens of a sample in all four arrays, of which `sequence` are merged; 0: all.
  int64_t sample_rows = 0;
};

// y = x for rows of `width` elements, rounded where y's type is the narrower one: row r of block b
// lies at b * block_stride + r * row_stride of either array. Strides may be negative.
struct CopyRowsArgs {
  struct Strides {
    int64_t block = 0, row = 0;
  };
  ConstArray x;
  Array y;  // shares no memory with x
  int64_t num_blocks = 1, num_rows = 0, width = 0;
  Strides x_strides, y_strides;
};

// y[i] = sum over b < num_blocks, ascending, of x[b * n + i], added in fp32: what a reduction in a
// 16-bit type needs to keep its precision.
struct SumBlocksArgs {
  ConstArray x;  // [num_blocks, n]
  Array y;       // [n]; may be block 0 of x
  int64_t n = 0, num_blocks = 0;
};

// The arguments with what they leave out filled in, as backends get them.
AttentionForwardArgs Completed(AttentionForwardArgs args);
AttentionBackwardArgs Completed(AttentionBackwardArgs args);
LogSumExpMergeArgs Completed(LogSumExpMergeArgs args);

}  // namespace tessera::kernels
