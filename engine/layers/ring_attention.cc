#include "engine/layers/ring_attention.h"

#include <utility>

namespace tessera::engine {

base::TokenPositions RingAttention::PositionsOf(int source) const {
  return spec::ContextPositions(context_.parallel, context_.shape.sequence * size(), source);
}

std::unique_ptr<CommHandle> RingAttention::Pass(const std::vector<Passage>& passages) const {
  if (passages.empty()) return nullptr;
  Communicator& ring = *context_.groups.context;
  const int next = (rank() + 1) % size();
  const int previous = (rank() + size() - 1) % size();
  ring.GroupStart();
  int tag = 0;
  for (const auto& [going, coming] : passages) {
    ring.Recv(coming->data(), BlockElements(), coming->dtype(), previous, tag);
    ring.Send(going->data(), BlockElements(), going->dtype(), next, tag);
    ++tag;
  }
  return ring.GroupEndAsync();
}

void RingAttention::Wait(const std::unique_ptr<CommHandle>& passing) const {
  if (passing) context_.context_comm.Run([&] { passing->Wait(); });
}

RingAttention::Blocks RingAttention::PackBlocks(const CoreStash& stash) const {
  Blocks blocks{context_.Workspace(BlockElements()), context_.Workspace(BlockElements())};
  CopyKeysAndValues(stash.qkv.array(), blocks.held.array());
  return blocks;
}

template <typename Args>
void RingAttention::SetKeys(int source, const CoreStash& stash, const Buffer& block,
                            Args& args) const {
  args.key_rows = context_.shape.sequence;
  if (source == rank()) {
    args.k = stash.qkv.array().At(KeyColumn());
    args.v = stash.qkv.array().At(ValueColumn());
    return;
  }
  args.k = block.array();
  args.v = block.array().At(KeyWidth());
  args.kv_stride = KeyValueWidth();
}

void RingAttention::Forward(Buffer qkv, CoreStash& stash) const {
  stash.qkv = std::move(qkv);
  stash.output = context_.Activation(context_.shape.tokens * context_.shape.attention_width);
  stash.out = stash.output.array();
  Recompute(stash);
}

// Each step's output goes to stash.output and from there into the sums.
void RingAttention::Recompute(CoreStash& stash) const {
  const spec::LocalShape& shape = context_.shape;
  const int64_t output_elements = shape.tokens * shape.attention_width;
  stash.stats = context_.Statistics(shape.tokens * shape.heads);
  const Buffer sums = context_.Fp32Workspace(output_elements);
  const Buffer block_stats = context_.Fp32Workspace(shape.tokens * shape.heads);
  Blocks blocks = PackBlocks(stash);
  for (int step = 0; step < size(); ++step) {
    std::vector<Passage> passages;
    if (step + 1 < size()) passages.push_back({&blocks.held, &blocks.coming});
    const auto passing = Pass(passages);
    const int source = spec::RingSourceForward(rank(), step, size());
    const spec::AttentionPart part = spec::RingPart(rank(), source, shape.sequence);
    const kernels::Array stats = (step == 0 ? stash.stats : block_stats).array();
    AttendStep(part, source, stash, blocks.held, stats);
    if (step == 0) {
      context_.backend.Cast(stash.out, sums.array(), output_elements);
    } else {
      Merge(part, stash, stats, sums.array());
    }
    Wait(passing);
    std::swap(blocks.held, blocks.coming);
  }
  context_.backend.Cast(sums.array(), stash.out, output_elements);
}

void RingAttention::AttendStep(const spec::AttentionPart& part, int source, const CoreStash& stash,
                               const Buffer& block, kernels::Array stats) const {
  kernels::AttentionForwardArgs args = ForwardArgs(part, PositionsOf(source));
  SetKeys(source, stash, block, args);
  args.q = stash.qkv.array().At(part.first_query * args.qkv_stride);
  args.out = stash.out.At(part.first_query * args.out_stride);
  args.stats = stats.At(part.first_query);
  context_.backend.AttentionForward(args);
}

void RingAttention::Merge(const spec::AttentionPart& part, const CoreStash& stash,
                          kernels::Array block_stats, kernels::Array sums) const {
  const spec::LocalShape& shape = context_.shape;
  const int64_t output_at = part.first_query * shape.attention_width;
  context_.backend.LogSumExpMerge({.block_out = stash.out.At(output_at),
                                   .block_stats = block_stats.At(part.first_query),
                                   .out = sums.At(output_at),
                                   .stats = stash.stats.array().At(part.first_query),
                                   .batch = shape.batch,
                                   .sequence = part.num_queries,
                                   .num_heads = shape.heads,
                                   .head_dim = shape.head_dim,
                                   .sample_rows = shape.sequence});
}

Buffer RingAttention::Backward(CoreStash& stash, Buffer doutput) const {
  const int64_t query_elements = context_.shape.tokens * KeyColumn();
  Blocks blocks = PackBlocks(stash);
  Sums sums{context_.Fp32Workspace(query_elements), context_.Fp32Workspace(BlockElements()),
            context_.Fp32Workspace(BlockElements()), context_.Fp32Workspace(BlockElements())};
  {
    const auto passing = Pass({{&blocks.held, &blocks.coming}});
    context_.backend.Fill(sums.dq.array(), query_elements, 0);
    Wait(passing);
    std::swap(blocks.held, blocks.coming);
  }
  for (int step = 0; step < size(); ++step) {
    context_.backend.Fill(sums.part.array(), BlockElements(), 0);
    std::vector<Passage> passages;
    if (step + 2 < size()) passages.push_back({&blocks.held, &blocks.coming});
    if (step > 0) passages.push_back({&sums.outgoing, &sums.incoming});
    const auto passing = Pass(passages);
    BackwardStep(spec::RingSourceBackward(rank(), step, size()), stash, blocks.held, doutput, sums);
    Wait(passing);
    if (step > 0) {
      context_.backend.Add(sums.incoming.array(), sums.part.array(), BlockElements());
    }
    if (step + 2 < size()) std::swap(blocks.held, blocks.coming);
    std::swap(sums.part, sums.outgoing);
  }
  // The last step's are of this rank's keys, and whole.
  const Buffer dkv = std::move(sums.outgoing);
  const Buffer dq = std::move(sums.dq);
  blocks = {};
  sums = {};
  doutput.Reset();
  return Collect(dq, dkv);
}

void RingAttention::BackwardStep(int source, const CoreStash& stash, const Buffer& block,
                                 const Buffer& doutput, const Sums& sums) const {
  const spec::AttentionPart part = spec::RingPart(rank(), source, context_.shape.sequence);
  kernels::AttentionBackwardArgs args = BackwardArgs(part, PositionsOf(source));
  SetKeys(source, stash, block, args);
  args.q = stash.qkv.array().At(part.first_query * args.qkv_stride);
  args.dout = doutput.array().At(part.first_query * args.out_stride);
  args.out = stash.out.At(part.first_query * args.out_stride);
  args.stats = stash.stats.array().At(part.first_query);
  args.sums = base::AttentionSums::kAll;
  args.dqkv_stride = KeyColumn();
  args.dq = sums.dq.array().At(part.first_query * args.dqkv_stride);
  args.dkv_stride = KeyValueWidth();
  args.dk = sums.part.array();
  args.dv = sums.part.array().At(KeyWidth());
  context_.backend.AttentionBackward(args);
}

// Gradients of q, k and v side by side, in the activations' type.
Buffer RingAttention::Collect(const Buffer& dq, const Buffer& dkv) const {
  const spec::LocalShape& shape = context_.shape;
  Buffer dqkv = context_.Workspace(shape.tokens * shape.qkv_width, context_.OperandLifetime());
  context_.backend.CopyRows({.x = dq.array(),
                             .y = dqkv.array(),
                             .num_rows = shape.tokens,
                             .width = KeyColumn(),
                             .x_strides = {.row = KeyColumn()},
                             .y_strides = {.row = shape.qkv_width}});
  CopyKeyValueGradients(dkv.array(), dqkv.array());
  return dqkv;
}

}  // namespace tessera::engine
