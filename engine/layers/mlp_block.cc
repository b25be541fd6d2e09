#include "engine/layers/mlp_block.h"

#include <utility>

#include "engine/layers/column_parallel.h"
#include "engine/layers/token_exchange.h"

namespace tessera::engine {
namespace {

std::string Prefix(int layer) { return "layers." + std::to_string(layer) + ".mlp."; }
// The parameter that the first product starts at.
std::string FirstName(const LayerContext& context, int layer) {
  const bool gated = context.model.activation == spec::ActivationKind::kSwiGlu;
  return Prefix(layer) + (gated ? "gate" : "up");
}

}  // namespace

MlpBlock::MlpBlock(const LayerContext& context, const ParameterStore& store, int layer)
    : context_(context),
      norm_(context, store, Prefix(layer) + "norm"),
      first_weight_(store.Get(FirstName(context, layer) + ".weight")),
      first_bias_(store.GetOptional(FirstName(context, layer) + ".bias")),
      down_weight_(store.Get(Prefix(layer) + "down.weight")),
      down_bias_(store.GetOptional(Prefix(layer) + "down.bias")) {}

void MlpBlock::ForwardToActivation(MlpStash& stash) const {
  const spec::LocalShape& shape = context_.shape;
  norm_.Forward(stash.input.array(), stash.norm);
  Buffer gathered;
  const kernels::ConstArray input = GatherTokens(context_, stash.norm.output.array(), gathered);
  const LinearShape linear{shape.tokens, first_width(), shape.hidden};
  stash.pre_activation = context_.Activation(shape.tokens * first_width());
  stash.activation = context_.Activation(shape.tokens * shape.ffn);
  if (is_gated()) {
    LinearForward(context_, linear, input, first_weight_.weight, first_bias_.weight,
                  stash.pre_activation.array());
    context_.backend.SwiGluForward({.gate_up = stash.pre_activation.array(),
                                    .y = stash.activation.array(),
                                    .num_rows = shape.tokens,
                                    .width = shape.ffn});
  } else {
    LinearGeluForward(context_, linear, input, first_weight_.weight, first_bias_.weight,
                      stash.pre_activation.array(), stash.activation.array());
  }
}

Buffer MlpBlock::ForwardFromActivation(const MlpStash& stash, Buffer output) const {
  const spec::LocalShape& shape = context_.shape;
  PartialSum partial(context_, std::move(output));
  LinearForward(context_, {shape.tokens, shape.hidden, shape.ffn}, stash.activation.array(),
                down_weight_.weight, nullptr, partial.part());
  Buffer y = partial.Reduce();
  context_.backend.ResidualAdd({.x = y.array(),
                                .residual = stash.input.array(),
                                .bias = down_bias_.weight,
                                .y = y.array(),
                                .num_rows = shape.local_tokens,
                                .width = shape.hidden});
  return y;
}

void MlpBlock::Backward(MlpStash& stash, Buffer& dy) const {
  const kernels::ConstArray residual_grad = dy.array();
  Buffer dpre = DownBackward(stash, dy);
  Buffer dnorm = FirstBackward(stash, dpre);
  norm_.Backward(stash.input.array(), stash.norm, residual_grad, dnorm.array());
  dy = std::move(dnorm);
}

// Gradient of the pre-activation [tokens, first_width].
Buffer MlpBlock::DownBackward(MlpStash& stash, Buffer& dy) const {
  const spec::LocalShape& shape = context_.shape;
  LinearBiasGradient(context_, dy.array(), shape.local_tokens, shape.hidden, down_bias_.grad);
  Buffer gathered;
  const kernels::ConstArray dy_all =
      GatherTokens(context_, dy.array(), gathered, context_.OperandLifetime());
  const LinearShape linear{shape.tokens, shape.hidden, shape.ffn};
  Buffer dactivation = context_.Workspace(
      shape.tokens * shape.ffn, is_gated() ? Lifetime::kPass : context_.OperandLifetime());
  LinearDataGradient(context_, linear, dy_all, down_weight_.weight, dactivation.array(),
                     is_gated() ? nullptr : stash.pre_activation.array());
  LinearWeightGradient(context_, linear, gathered ? gathered : dy, stash.activation,
                       down_weight_.grad);
  if (!is_gated()) return dactivation;
  Buffer dpre = context_.Workspace(shape.tokens * first_width(), context_.OperandLifetime());
  context_.backend.SwiGluBackward({.dy = dactivation.array(),
                                   .gate_up = stash.pre_activation.array(),
                                   .dgate_up = dpre.array(),
                                   .num_rows = shape.tokens,
                                   .width = shape.ffn});
  return dpre;
}

// Gradient of the norm's output [local_tokens, hidden].
Buffer MlpBlock::FirstBackward(MlpStash& stash, Buffer& dpre) const {
  const spec::LocalShape& shape = context_.shape;
  const LinearShape linear{shape.tokens, first_width(), shape.hidden};
  LinearBiasGradient(context_, dpre.array(), shape.tokens, first_width(), first_bias_.grad);
  return ColumnParallelBackward(context_, linear, dpre, stash.norm.output, first_weight_);
}

}  // namespace tessera::engine
