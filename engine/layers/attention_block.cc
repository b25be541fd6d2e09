#include "engine/layers/attention_block.h"

#include <cmath>
#include <utility>

#include "engine/layers/column_parallel.h"
#include "engine/layers/rope_frequencies.h"
#include "engine/layers/token_exchange.h"

namespace tessera::engine {
namespace {

std::string Prefix(int layer) { return "layers." + std::to_string(layer) + ".attention."; }

base::AttentionStats StatsKind(const spec::ParallelSpec& parallel) {
  return parallel.attention == spec::AttentionKind::kFlash ? base::AttentionStats::kLogSumExp
                                                           : base::AttentionStats::kProbabilities;
}

// The log-sum-exp of each row in fp32, or its probabilities in the activations' type.
Buffer AllocateStats(const LayerContext& context, base::AttentionStats kind) {
  const spec::LocalShape& shape = context.shape;
  const int64_t rows = shape.batch * shape.heads * shape.sequence;
  if (kind == base::AttentionStats::kLogSumExp) return context.Statistics(rows);
  return context.Activation(rows * shape.sequence);
}

float ScoreScale(const spec::LocalShape& shape) {
  return 1.0F / std::sqrt(static_cast<float>(shape.head_dim));
}

// Where k and v start in a row of q, k, v.
int64_t KeyOffset(const spec::LocalShape& shape) { return shape.heads * shape.head_dim; }
int64_t ValueOffset(const spec::LocalShape& shape) {
  return (shape.heads + shape.kv_heads) * shape.head_dim;
}

}  // namespace

AttentionBlock::AttentionBlock(const LayerContext& context, const ParameterStore& store, int layer)
    : context_(context),
      norm_(context, store, Prefix(layer) + "norm"),
      qkv_weight_(store.Get(Prefix(layer) + "q.weight")),
      qkv_bias_(store.GetOptional(Prefix(layer) + "q.bias")),
      output_weight_(store.Get(Prefix(layer) + "output.weight")),
      output_bias_(store.GetOptional(Prefix(layer) + "output.bias")),
      inverse_frequency_(InverseRopeFrequencies(context.model)) {}

Buffer AttentionBlock::Forward(kernels::ConstArray x, AttentionStash& stash) const {
  const spec::LocalShape& shape = context_.shape;
  norm_.Forward(x, stash.norm);
  {
    Buffer gathered;
    const kernels::ConstArray input = GatherTokens(context_, stash.norm.output.array(), gathered);
    stash.qkv = context_.Activation(shape.tokens * shape.qkv_width);
    LinearForward(context_, {shape.tokens, shape.qkv_width, shape.hidden}, input,
                  qkv_weight_.weight, qkv_bias_.weight, stash.qkv.array());
  }
  Rope(stash.qkv.array(), /*inverse=*/false);
  stash.output = context_.Activation(shape.tokens * shape.attention_width);
  AttentionForward(stash, stash.output.array());
  if (context_.parallel.recompute == spec::Recompute::kSelective) stash.stats.Reset();

  PartialSum partial(context_, context_.LocalTokens(Lifetime::kStep));
  LinearForward(context_, {shape.tokens, shape.hidden, shape.attention_width}, stash.output.array(),
                output_weight_.weight, nullptr, partial.part());
  Buffer y = partial.Reduce();
  context_.backend.ResidualAdd({.x = y.array(),
                                .residual = x,
                                .bias = output_bias_.weight,
                                .y = y.array(),
                                .num_rows = shape.local_tokens,
                                .width = shape.hidden});
  return y;
}

void AttentionBlock::AttentionForward(AttentionStash& stash, kernels::Array output) const {
  const spec::LocalShape& shape = context_.shape;
  const base::AttentionStats kind = StatsKind(context_.parallel);
  stash.stats = AllocateStats(context_, kind);
  const kernels::ConstArray qkv = stash.qkv.array();
  context_.backend.AttentionForward({.q = qkv,
                                     .k = qkv.At(KeyOffset(shape)),
                                     .v = qkv.At(ValueOffset(shape)),
                                     .out = output,
                                     .stats = stash.stats.array(),
                                     .stats_kind = kind,
                                     .batch = shape.batch,
                                     .sequence = shape.sequence,
                                     .num_heads = shape.heads,
                                     .num_kv_heads = shape.kv_heads,
                                     .head_dim = shape.head_dim,
                                     .qkv_stride = shape.qkv_width,
                                     .out_stride = shape.attention_width,
                                     .scale = ScoreScale(shape)});
}

void AttentionBlock::Backward(kernels::ConstArray x, AttentionStash& stash, Buffer& dy) const {
  const kernels::ConstArray residual_grad = dy.array();
  const kernels::Array output = stash.output.array();
  Buffer doutput = OutputBackward(stash, dy);
  Buffer dqkv = CoreBackward(stash, output, doutput);
  doutput.Reset();
  Buffer dnorm = QkvBackward(stash, dqkv);
  norm_.Backward(x, stash.norm, residual_grad, dnorm.array());
  dy = std::move(dnorm);
}

// Gradient of the attention's output [tokens, attention_width].
Buffer AttentionBlock::OutputBackward(AttentionStash& stash, Buffer& dy) const {
  const spec::LocalShape& shape = context_.shape;
  LinearBiasGradient(context_, dy.array(), shape.local_tokens, shape.hidden, output_bias_.grad);
  Buffer gathered;
  const kernels::ConstArray dy_all =
      GatherTokens(context_, dy.array(), gathered, context_.OperandLifetime());
  Buffer doutput = context_.Workspace(shape.tokens * shape.attention_width);
  const LinearShape linear{shape.tokens, shape.hidden, shape.attention_width};
  LinearDataGradient(context_, linear, dy_all, output_weight_.weight, doutput.array());
  LinearWeightGradient(context_, linear, gathered ? gathered : dy, stash.output,
                       output_weight_.grad);
  return doutput;
}

// Gradient of q, k, v before the rotation [tokens, qkv_width].
Buffer AttentionBlock::CoreBackward(AttentionStash& stash, kernels::Array output,
                                    const Buffer& doutput) const {
  const spec::LocalShape& shape = context_.shape;
  if (context_.parallel.recompute == spec::Recompute::kSelective) AttentionForward(stash, output);
  Buffer dqkv = context_.Workspace(shape.tokens * shape.qkv_width, context_.OperandLifetime());
  const kernels::ConstArray qkv = stash.qkv.array();
  context_.backend.AttentionBackward({.dout = doutput.array(),
                                      .q = qkv,
                                      .k = qkv.At(KeyOffset(shape)),
                                      .v = qkv.At(ValueOffset(shape)),
                                      .out = output,
                                      .stats = stash.stats.array(),
                                      .dq = dqkv.array(),
                                      .dk = dqkv.array().At(KeyOffset(shape)),
                                      .dv = dqkv.array().At(ValueOffset(shape)),
                                      .stats_kind = StatsKind(context_.parallel),
                                      .batch = shape.batch,
                                      .sequence = shape.sequence,
                                      .num_heads = shape.heads,
                                      .num_kv_heads = shape.kv_heads,
                                      .head_dim = shape.head_dim,
                                      .qkv_stride = shape.qkv_width,
                                      .out_stride = shape.attention_width,
                                      .dqkv_stride = shape.qkv_width,
                                      .scale = ScoreScale(shape)});
  Rope(dqkv.array(), /*inverse=*/true);
  return dqkv;
}

// Gradient of the norm's output [local_tokens, hidden].
Buffer AttentionBlock::QkvBackward(AttentionStash& stash, Buffer& dqkv) const {
  const spec::LocalShape& shape = context_.shape;
  const LinearShape linear{shape.tokens, shape.qkv_width, shape.hidden};
  LinearBiasGradient(context_, dqkv.array(), shape.tokens, shape.qkv_width, qkv_bias_.grad);
  return ColumnParallelBackward(context_, linear, dqkv, stash.norm.output, qkv_weight_);
}

void AttentionBlock::Rope(kernels::Array qkv, bool inverse) const {
  if (inverse_frequency_.empty()) return;
  const spec::LocalShape& shape = context_.shape;
  context_.backend.Rope({.qk = qkv,
                         .inverse_frequency = inverse_frequency_.data(),
                         .num_rows = shape.tokens,
                         .sequence = shape.sequence,
                         .num_heads = shape.heads + shape.kv_heads,
                         .head_dim = shape.head_dim,
                         .stride = shape.qkv_width,
                         .inverse = inverse});
}

}  // namespace tessera::engine
