// Norm, a mixture of experts, residual. Each token's hidden state goes to the experts that its
// router chooses, on whichever rank they are, and comes back as the sum of what they made of it; a
// shared expert, if there is one, sees all tokens where they are.
// Shazeer et al. 2017, arXiv:1701.06538; Lepikhin et al. 2020, arXiv:2006.16668.
#pragma once

#include <optional>

#include "engine/layers/dropout.h"
#include "engine/layers/expert_mlp.h"
#include "engine/layers/mlp.h"
#include "engine/layers/norm.h"
#include "engine/layers/router.h"
#include "engine/layers/token_dispatch.h"

namespace tessera::engine {

struct MoeStash {
  Buffer input;  // [local_tokens, hidden]: the attention block's result
  NormStash norm;
  RouterStash router;
  ExpertTensors experts;
  MlpTensors shared;  // of the expert that every token visits
  // In host memory, and kept where tensors are recomputed: rows go the same way twice.
  std::optional<DispatchPlan> plan;

  void DropTensors() { *this = MoeStash{.plan = std::move(plan)}; }
};

class MoeBlock {
 public:
  MoeBlock(const LayerContext& context, const ParameterStore& store, int layer);

  // Up to the input of the experts' second product: all that the backward pass reads. Reads
  // stash.input. The host waits for the router's choice.
  void ForwardToActivation(MoeStash& stash) const;
  // The rest: returns stash.input + dropout(experts(norm(stash.input))), [local_tokens, hidden], in
  // `output`.
  Buffer ForwardFromActivation(const MoeStash& stash, Buffer output) const;
  // `dy`: gradient of the result; becomes the gradient of stash.input.
  void Backward(MoeStash& stash, Buffer& dy) const;

 private:
  void Add(kernels::ConstArray x, kernels::Array y) const;  // y += x, [local_tokens, hidden]
  Buffer ExpertsBackward(MoeStash& stash, kernels::ConstArray dy, kernels::Array dweights) const;

  const LayerContext& context_;
  Norm norm_;
  Router router_;
  TokenDispatch dispatch_;
  ExpertMlp experts_;
  std::optional<Mlp> shared_;
  BranchEnd end_;
};

}  // namespace tessera::engine
