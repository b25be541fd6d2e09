#include "engine/layers/gathered_attention.h"

#include <utility>

namespace tessera::engine {

spec::AttentionPart GatheredAttention::Part(bool is_late) const {
  return spec::GatheredPart(rank(), size(), context_.shape.sequence, is_late);
}

kernels::Array GatheredAttention::StatsOf(const Buffer& stats, bool is_late) const {
  if (StatsKind() == base::AttentionStats::kLogSumExp) {
    return stats.array().At(Part(is_late).first_query);
  }
  const spec::AttentionPart early = Part(false);
  const int64_t heads = context_.shape.batch * context_.shape.heads;
  return stats.array().At(is_late ? heads * early.num_queries * early.num_keys : 0);
}

void GatheredAttention::CopyChunks(Order order, kernels::ConstArray from, kernels::Array to) const {
  const spec::LocalShape& shape = context_.shape;
  const int64_t chunk = shape.sequence / 2 * KeyValueWidth();  // elements
  const int64_t num_chunks = 2 * size();
  for (const bool is_late : {false, true}) {
    // Block p: chunk p of all, or chunk 2 n - 1 - p.
    const int64_t by_rank_at = is_late ? chunk : 0;
    const kernels::CopyRowsArgs::Strides by_rank{.block = BlockElements(), .row = 2 * chunk};
    const int64_t in_order_at = is_late ? (num_chunks - 1) * chunk : 0;
    const kernels::CopyRowsArgs::Strides in_order{.block = is_late ? -chunk : chunk,
                                                  .row = num_chunks * chunk};
    const bool to_sequence = order == Order::kToSequence;
    context_.backend.CopyRows({.x = from.At(to_sequence ? by_rank_at : in_order_at),
                               .y = to.At(to_sequence ? in_order_at : by_rank_at),
                               .num_blocks = size(),
                               .num_rows = shape.batch,
                               .width = chunk,
                               .x_strides = to_sequence ? by_rank : in_order,
                               .y_strides = to_sequence ? in_order : by_rank});
  }
}

Buffer GatheredAttention::GatherKeys(const CoreStash& stash) const {
  const Buffer by_rank = context_.Workspace(size() * BlockElements());
  const kernels::Array own = by_rank.array().At(rank() * BlockElements());
  CopyKeysAndValues(stash.qkv.array(), own);
  context_.context_comm.Run([&] {
    context_.groups.context->AllGather(own.data, by_rank.data(), BlockElements(), own.dtype);
  });
  Buffer in_order = context_.Workspace(size() * BlockElements());
  CopyChunks(Order::kToSequence, by_rank.array(), in_order.array());
  return in_order;
}

void GatheredAttention::Forward(Buffer qkv, CoreStash& stash) const {
  stash.qkv = std::move(qkv);
  stash.output = context_.Activation(context_.shape.tokens * context_.shape.attention_width);
  stash.out = stash.output.array();
  Recompute(stash);
}

void GatheredAttention::Recompute(CoreStash& stash) const {
  const spec::LocalShape& shape = context_.shape;
  const int64_t num_queries = shape.batch * shape.heads * (shape.sequence / 2);
  stash.stats =
      StatsKind() == base::AttentionStats::kLogSumExp
          ? context_.Statistics(shape.tokens * shape.heads)
          : context_.Activation(num_queries * (Part(false).num_keys + Part(true).num_keys));
  const Buffer keys = GatherKeys(stash);
  for (const bool is_late : {false, true}) {
    const spec::AttentionPart part = Part(is_late);
    kernels::AttentionForwardArgs args = ForwardArgs(part, kInOrder);
    args.q = stash.qkv.array().At(part.first_query * args.qkv_stride);
    args.k = keys.array();
    args.v = keys.array().At(KeyWidth());
    args.kv_stride = KeyValueWidth();
    args.key_rows = size() * shape.sequence;
    args.out = stash.out.At(part.first_query * args.out_stride);
    args.stats = StatsOf(stash.stats, is_late);
    context_.backend.AttentionForward(args);
  }
}

Buffer GatheredAttention::Backward(CoreStash& stash, Buffer doutput) const {
  const spec::LocalShape& shape = context_.shape;
  const int64_t all_elements = size() * BlockElements();
  Buffer keys = GatherKeys(stash);
  Buffer dqkv = context_.Workspace(shape.tokens * shape.qkv_width, context_.OperandLifetime());
  Buffer key_sums = context_.Fp32Workspace(all_elements);
  context_.backend.Fill(key_sums.array(), all_elements, 0);
  AttendBackward(stash, keys, doutput, dqkv.array(), key_sums.array());
  keys.Reset();
  doutput.Reset();
  const Buffer by_rank = context_.Workspace(all_elements);
  CopyChunks(Order::kToRanks, key_sums.array(), by_rank.array());
  key_sums.Reset();
  const kernels::Array own = by_rank.array().At(rank() * BlockElements());
  context_.context_comm.Run([&] {
    context_.groups.context->ReduceScatter(by_rank.data(), own.data, BlockElements(), own.dtype,
                                           base::ReduceOp::kSum);
  });
  CopyKeyValueGradients(own, dqkv.array());
  return dqkv;
}

void GatheredAttention::AttendBackward(const CoreStash& stash, const Buffer& keys,
                                       const Buffer& doutput, kernels::Array dqkv,
                                       kernels::Array key_sums) const {
  for (const bool is_late : {false, true}) {
    const spec::AttentionPart part = Part(is_late);
    kernels::AttentionBackwardArgs args = BackwardArgs(part, kInOrder);
    args.dout = doutput.array().At(part.first_query * args.out_stride);
    args.q = stash.qkv.array().At(part.first_query * args.qkv_stride);
    args.k = keys.array();
    args.v = keys.array().At(KeyWidth());
    args.kv_stride = KeyValueWidth();
    args.key_rows = size() * context_.shape.sequence;
    args.out = stash.out.At(part.first_query * args.out_stride);
    args.stats = StatsOf(stash.stats, is_late);
    args.dq = dqkv.At(part.first_query * args.dqkv_stride);
    args.sums = base::AttentionSums::kKeysAndValues;
    args.dk = key_sums;
    args.dv = key_sums.At(KeyWidth());
    args.dkv_stride = KeyValueWidth();
    context_.backend.AttentionBackward(args);
  }
}

}  // namespace tessera::engine
