#include "engine/layers/attention_block.h"

#include <utility>

#include "engine/layers/column_parallel.h"
#include "engine/layers/rope_frequencies.h"
#include "engine/layers/token_exchange.h"

namespace tessera::engine {
namespace {

std::string AttentionPrefix(int layer) { return "layers." + std::to_string(layer) + ".attention."; }

}  // namespace

AttentionBlock::AttentionBlock(const LayerContext& context, const ParameterStore& store, int layer)
    : context_(context),
      core_(MakeAttentionCore(context, AttentionPrefix(layer) + "probabilities")),
      end_(context, AttentionPrefix(layer) + "output"),
      norm_(context, store, AttentionPrefix(layer) + "norm"),
      qkv_weight_(store.Get(AttentionPrefix(layer) + "q.weight")),
      qkv_bias_(store.GetOptional(AttentionPrefix(layer) + "q.bias")),
      output_weight_(store.Get(AttentionPrefix(layer) + "output.weight")),
      output_bias_(store.GetOptional(AttentionPrefix(layer) + "output.bias")),
      inverse_frequency_(InverseRopeFrequencies(context.model)) {}

Buffer AttentionBlock::Forward(kernels::ConstArray x, AttentionStash& stash) const {
  const spec::LocalShape& shape = context_.shape;
  norm_.Forward(x, stash.norm);
  Buffer qkv;
  {
    Buffer gathered;
    const kernels::ConstArray input = GatherTokens(context_, stash.norm.output.array(), gathered);
    qkv = core_->AllocateQkv();
    LinearForward(context_, {shape.tokens, shape.qkv_width, shape.hidden}, input,
                  qkv_weight_.weight, qkv_bias_.weight, qkv.array());
  }
  Rope(qkv.array(), /*inverse=*/false);
  core_->Forward(std::move(qkv), stash.core);
  if (context_.parallel.recompute == spec::Recompute::kSelective) stash.core.stats.Reset();

  PartialSum partial(context_, context_.LocalTokens(Lifetime::kStep));
  LinearForward(context_, {shape.tokens, shape.hidden, shape.attention_width},
                stash.core.output.array(), output_weight_.weight, nullptr, partial.part());
  Buffer y = partial.Reduce();
  end_.AddResidual(x, output_bias_.weight, y.array());
  return y;
}

void AttentionBlock::Backward(kernels::ConstArray x, AttentionStash& stash, Buffer& dy) const {
  const kernels::ConstArray residual_grad = dy.array();
  Buffer doutput;
  {
    Buffer branch = end_.Gradient(dy.array());
    doutput = OutputBackward(stash, branch ? branch : dy);
  }
  Buffer dqkv = CoreBackward(stash, std::move(doutput));
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
  LinearWeightGradient(context_, linear, gathered ? gathered : dy, stash.core.output,
                       output_weight_.grad);
  return doutput;
}

// Gradient of q, k, v before the rotation [tokens, qkv_width].
Buffer AttentionBlock::CoreBackward(AttentionStash& stash, Buffer doutput) const {
  if (context_.parallel.recompute == spec::Recompute::kSelective) core_->Recompute(stash.core);
  Buffer dqkv = core_->Backward(stash.core, std::move(doutput));
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
                         .inverse = inverse,
                         .positions = shape.positions});
}

}  // namespace tessera::engine
