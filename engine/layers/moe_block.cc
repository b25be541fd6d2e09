#include "engine/layers/moe_block.h"

#include <string>
#include <utility>

namespace tessera::engine {

MoeBlock::MoeBlock(const LayerContext& context, const ParameterStore& store, int layer)
    : context_(context),
      norm_(context, store, "layers." + std::to_string(layer) + ".mlp.norm"),
      router_(context, store, layer),
      dispatch_(context),
      experts_(context, store, layer),
      end_(context, "layers." + std::to_string(layer) + ".mlp.output") {
  if (context.shape.shared_ffn > 0) {
    shared_.emplace(context, store, "layers." + std::to_string(layer) + ".mlp.shared_expert.",
                    context.shape.shared_ffn);
  }
}

void MoeBlock::ForwardToActivation(MoeStash& stash) const {
  norm_.Forward(stash.input.array(), stash.norm);
  const kernels::ConstArray tokens = stash.norm.output.array();
  router_.Forward(tokens, stash.router);
  if (!stash.plan) stash.plan = dispatch_.Plan(stash.router.chosen.array());
  const DispatchPlan& plan = *stash.plan;
  stash.experts.rows = dispatch_.Tokens(plan, tokens, kKeptRows);
  stash.experts.weights = dispatch_.Values(plan, stash.router.weights.array(), kKeptRows);
  experts_.Up(plan.incoming.expert_rows, stash.experts);
  if (shared_) shared_->Up(tokens, stash.shared);
}

Buffer MoeBlock::ForwardFromActivation(const MoeStash& stash, Buffer output) const {
  const DispatchPlan& plan = *stash.plan;
  Buffer rows = experts_.Down(plan.incoming.expert_rows, stash.experts);
  dispatch_.SumTokens(plan, std::move(rows), output.array());
  if (shared_) {
    const Buffer shared = shared_->Down(stash.shared, context_.LocalTokens());
    Add(shared.array(), output.array());
  }
  end_.AddResidual(stash.input.array(), /*bias=*/{}, output.array());
  return output;
}

void MoeBlock::Backward(MoeStash& stash, Buffer& dy) const {
  const spec::LocalShape& shape = context_.shape;
  Buffer branch = end_.Gradient(dy.array());
  Buffer& doutput = branch ? branch : dy;
  Buffer dshared;
  if (shared_) dshared = shared_->Backward(stash.norm.output, stash.shared, doutput);
  Buffer dweights =
      context_.Fp32Workspace(shape.local_tokens * context_.model.moe->experts_per_token);
  Buffer dnorm = ExpertsBackward(stash, doutput.array(), dweights.array());
  const Buffer drouter = router_.Backward(stash.norm.output, stash.router, dweights.array());
  dweights.Reset();
  Add(drouter.array(), dnorm.array());
  if (shared_) Add(dshared.array(), dnorm.array());
  norm_.Backward(stash.input.array(), stash.norm, /*residual_grad=*/dy.array(), dnorm.array());
  dy = std::move(dnorm);
}

// Gradient of the norm's output through the experts, [local_tokens, hidden], and of the router's
// weights.
Buffer MoeBlock::ExpertsBackward(MoeStash& stash, kernels::ConstArray dy,
                                 kernels::Array dweights) const {
  const DispatchPlan& plan = *stash.plan;
  Buffer dnorm = context_.LocalTokens(context_.OperandLifetime());
  Buffer dy_rows = dispatch_.Tokens(plan, dy, {.lifetime = context_.OperandLifetime()});
  ExpertMlp::Gradients gradients =
      experts_.Backward(plan.incoming.expert_rows, stash.experts, std::move(dy_rows));
  dispatch_.SumTokens(plan, std::move(gradients.rows), dnorm.array());
  dispatch_.ReturnValues(plan, std::move(gradients.weights), dweights);
  return dnorm;
}

void MoeBlock::Add(kernels::ConstArray x, kernels::Array y) const {
  context_.backend.ResidualAdd({.x = x,
                                .residual = y,
                                .y = y,
                                .num_rows = context_.shape.local_tokens,
                                .width = context_.shape.hidden});
}

}  // namespace tessera::engine
