#include "engine/layers/router.h"

#include <string>
#include <utility>

#include "engine/layers/linear.h"

namespace tessera::engine {
namespace {

// Far enough below 0 for a probability of 0 in fp32.
constexpr float kNeverChosen = -1e4F;

// Logits that make token i of a sequence choose experts i k to i k + k - 1, going round: each is
// chosen equally often wherever as many tokens in a row are routed as it takes to go round once.
std::vector<float> ForcedLogits(const spec::LocalShape& shape, const spec::MoeSpec& moe,
                                int64_t first_row) {
  const int64_t num_experts = moe.num_experts;
  std::vector<float> logits(static_cast<size_t>(shape.local_tokens * num_experts), kNeverChosen);
  for (int64_t row = 0; row < shape.local_tokens; ++row) {
    const int64_t position = shape.positions.Of((first_row + row) % shape.sequence);
    for (int64_t j = 0; j < moe.experts_per_token; ++j) {
      const int64_t expert = (position * moe.experts_per_token + j) % num_experts;
      logits[static_cast<size_t>(row * num_experts + expert)] = 0;
    }
  }
  return logits;
}

}  // namespace

Router::Router(const LayerContext& context, const ParameterStore& store, int layer)
    : context_(context),
      moe_(*context.model.moe),
      weight_(store.Get("layers." + std::to_string(layer) + ".mlp.router.weight")) {
  if (moe_.forced_uniform_routing) {
    forced_logits_ = ForcedLogits(context.shape, moe_, context.FirstRow());
  }
}

void Router::Forward(kernels::ConstArray tokens, RouterStash& stash) const {
  const int64_t rows = context_.shape.local_tokens;
  const int64_t choices = rows * moe_.experts_per_token;
  stash.probabilities = context_.Statistics(rows * moe_.num_experts);
  stash.log_sum_exp = context_.Statistics(rows);
  stash.chosen = context_.pool.Allocate(MemoryKind::kActivations, base::DType::kInt32, choices);
  stash.weights = context_.Statistics(choices);
  const kernels::Array logits = stash.probabilities.array();
  LinearForward(context_, {rows, moe_.num_experts, context_.shape.hidden}, tokens, weight_.weight,
                nullptr, logits);
  if (!forced_logits_.empty()) {
    context_.backend.CopyToDevice(logits.data, forced_logits_.data(),
                                  forced_logits_.size() * sizeof(float));
  }
  context_.backend.RouterForward({.logits = logits,
                                  .probabilities = stash.probabilities.array(),
                                  .log_sum_exp = stash.log_sum_exp.array(),
                                  .chosen = stash.chosen.array(),
                                  .weight = stash.weights.array(),
                                  .num_rows = rows,
                                  .num_experts = moe_.num_experts,
                                  .num_chosen = moe_.experts_per_token,
                                  .normalize = moe_.normalized_router_weights});
  if (balances()) CountChoices(stash);
}

void Router::CountChoices(RouterStash& stash) const {
  const spec::LocalShape& shape = context_.shape;
  const int64_t elements = shape.batch * moe_.num_experts;
  stash.counts = context_.Statistics(elements);
  context_.backend.ExpertCount({.chosen = stash.chosen.array(),
                                .counts = stash.counts.array(),
                                .num_rows = shape.local_tokens,
                                .num_experts = moe_.num_experts,
                                .num_chosen = moe_.experts_per_token,
                                .first_row = context_.FirstRow(),
                                .sequence = shape.sequence,
                                .num_sequences = shape.batch});
  const auto add_up = [&](Communicator& group, SpanLog& log) {
    if (group.size() == 1) return;
    log.Run([&] {
      group.AllReduce(stash.counts.data(), stash.counts.data(), elements, base::DType::kFloat32,
                      base::ReduceOp::kSum);
    });
  };
  if (shape.sequence_parallel) add_up(*context_.groups.tensor, context_.tensor_comm);
  add_up(*context_.groups.context, context_.context_comm);
}

Buffer Router::Backward(Buffer& tokens, const RouterStash& stash,
                        kernels::ConstArray dweights) const {
  const spec::LocalShape& shape = context_.shape;
  const LinearShape linear{shape.local_tokens, moe_.num_experts, shape.hidden};
  const LossTarget& loss = context_.loss;
  Buffer dlogits = context_.Workspace(linear.rows * linear.out, context_.OperandLifetime());
  context_.backend.RouterBackward(
      {.probabilities = stash.probabilities.array(),
       .log_sum_exp = stash.log_sum_exp.array(),
       .chosen = stash.chosen.array(),
       .weight = stash.weights.array(),
       .dweight = dweights,
       .counts = stash.counts.array(),
       .dlogits = dlogits.array(),
       .balance_loss_sum = balances() ? loss.balance_sum : nullptr,
       .z_loss_sum = moe_.z_loss_coefficient > 0 ? loss.router_z_sum : nullptr,
       .num_rows = linear.rows,
       .num_experts = linear.out,
       .num_chosen = moe_.experts_per_token,
       .first_row = context_.FirstRow(),
       .sequence = shape.sequence,
       .sequence_tokens = shape.sequence * context_.parallel.context_parallel_size,
       .normalize = moe_.normalized_router_weights,
       .balance_coefficient = static_cast<float>(moe_.auxiliary_loss_coefficient),
       .z_coefficient = static_cast<float>(moe_.z_loss_coefficient),
       .grad_scale = loss.router_grad_scale});
  Buffer dtokens = context_.LocalTokens();
  LinearDataGradient(context_, linear, dlogits.array(), weight_.weight, dtokens.array());
  LinearWeightGradient(context_, linear, dlogits, tokens, weight_.grad);
  return dtokens;
}

}  // namespace tessera::engine
