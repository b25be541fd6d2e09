#include "engine/layers/lone_attention.h"

#include <utility>

namespace tessera::engine {

spec::AttentionPart LoneAttention::Whole() const {
  return {.num_queries = context_.shape.sequence, .num_keys = context_.shape.sequence};
}

void LoneAttention::Forward(Buffer qkv, CoreStash& stash) const {
  stash.qkv = std::move(qkv);
  stash.output = context_.Activation(context_.shape.tokens * context_.shape.attention_width);
  stash.out = stash.output.array();
  Recompute(stash);
}

// The log-sum-exp of each row in fp32, or its probabilities in the activations' type.
void LoneAttention::Recompute(CoreStash& stash) const {
  const spec::LocalShape& shape = context_.shape;
  const int64_t rows = shape.batch * shape.heads * shape.sequence;
  stash.stats = StatsKind() == base::AttentionStats::kLogSumExp
                    ? context_.Statistics(rows)
                    : context_.Activation(rows * shape.sequence);
  const kernels::ConstArray qkv = stash.qkv.array();
  kernels::AttentionForwardArgs args = ForwardArgs(Whole(), kInOrder);
  args.q = qkv;
  args.k = qkv.At(KeyColumn());
  args.v = qkv.At(ValueColumn());
  args.out = stash.out;
  args.stats = stash.stats.array();
  context_.backend.AttentionForward(args);
}

Buffer LoneAttention::Backward(CoreStash& stash, Buffer doutput) const {
  Buffer dqkv = context_.Workspace(context_.shape.tokens * context_.shape.qkv_width,
                                   context_.OperandLifetime());
  const kernels::ConstArray qkv = stash.qkv.array();
  kernels::AttentionBackwardArgs args = BackwardArgs(Whole(), kInOrder);
  args.dout = doutput.array();
  args.q = qkv;
  args.k = qkv.At(KeyColumn());
  args.v = qkv.At(ValueColumn());
  args.out = stash.out;
  args.stats = stash.stats.array();
  args.dq = dqkv.array();
  args.dk = dqkv.array().At(KeyColumn());
  args.dv = dqkv.array().At(ValueColumn());
  context_.backend.AttentionBackward(args);
  return dqkv;
}

}  // namespace tessera::engine
