#include "engine/layers/mlp_block.h"

#include <utility>

namespace tessera::engine {
namespace {

std::string Prefix(int layer) { return "layers." + std::to_string(layer) + ".mlp."; }

}  // namespace

MlpBlock::MlpBlock(const LayerContext& context, const ParameterStore& store, int layer)
    : context_(context),
      norm_(context, store, Prefix(layer) + "norm"),
      mlp_(context, store, Prefix(layer), context.shape.ffn) {}

void MlpBlock::ForwardToActivation(MlpStash& stash) const {
  norm_.Forward(stash.input.array(), stash.norm);
  mlp_.Up(stash.norm.output.array(), stash.mlp);
}

Buffer MlpBlock::ForwardFromActivation(const MlpStash& stash, Buffer output) const {
  Buffer y = mlp_.Down(stash.mlp, std::move(output));
  context_.backend.ResidualAdd({.x = y.array(),
                                .residual = stash.input.array(),
                                .bias = mlp_.down_bias(),
                                .y = y.array(),
                                .num_rows = context_.shape.local_tokens,
                                .width = context_.shape.hidden});
  return y;
}

void MlpBlock::Backward(MlpStash& stash, Buffer& dy) const {
  const kernels::ConstArray residual_grad = dy.array();
  Buffer dnorm = mlp_.Backward(stash.norm.output, stash.mlp, dy);
  norm_.Backward(stash.input.array(), stash.norm, residual_grad, dnorm.array());
  dy = std::move(dnorm);
}

}  // namespace tessera::engine
