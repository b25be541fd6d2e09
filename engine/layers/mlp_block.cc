#include "engine/layers/mlp_block.h"

#include <utility>

namespace tessera::engine {
namespace {

std::string MlpPrefix(int layer) { return "layers." + std::to_string(layer) + ".mlp."; }

}  // namespace

MlpBlock::MlpBlock(const LayerContext& context, const ParameterStore& store, int layer)
    : norm_(context, store, MlpPrefix(layer) + "norm"),
      mlp_(context, store, MlpPrefix(layer), context.shape.ffn),
      end_(context, MlpPrefix(layer) + "output") {}

void MlpBlock::ForwardToActivation(MlpStash& stash) const {
  norm_.Forward(stash.input.array(), stash.norm);
  mlp_.Up(stash.norm.output.array(), stash.mlp);
}

Buffer MlpBlock::ForwardFromActivation(const MlpStash& stash, Buffer output) const {
  Buffer y = mlp_.Down(stash.mlp, std::move(output));
  end_.AddResidual(stash.input.array(), mlp_.down_bias(), y.array());
  return y;
}

void MlpBlock::Backward(MlpStash& stash, Buffer& dy) const {
  const kernels::ConstArray residual_grad = dy.array();
  Mlp::PreActivationGradient gradient;
  {
    Buffer branch = end_.Gradient(dy.array());
    gradient = mlp_.DownBackward(stash.mlp, branch ? branch : dy);
  }
  Buffer dnorm = mlp_.UpBackward(stash.norm.output, std::move(gradient));
  norm_.Backward(stash.input.array(), stash.norm, residual_grad, dnorm.array());
  dy = std::move(dnorm);
}

}  // namespace tessera::engine
