#include "engine/layers/swapped_attention.h"

#include <utility>

namespace tessera::engine {

SwappedAttention::Rows SwappedAttention::Qkv() const {
  return {{{0, KeyColumn()}, {KeyColumn(), KeyWidth()}, {ValueColumn(), KeyWidth()}},
          context_.shape.qkv_width};
}

SwappedAttention::Rows SwappedAttention::Output() const {
  return {{{0, context_.shape.attention_width}}, context_.shape.attention_width};
}

Buffer SwappedAttention::Allocate(const Rows& rows, MemoryKind kind) const {
  const int64_t elements = context_.shape.tokens * rows.width;
  return kind == MemoryKind::kActivations ? context_.Activation(elements)
                                          : context_.Workspace(elements);
}

Buffer SwappedAttention::AllocateQkv() const { return Allocate(Qkv(), MemoryKind::kWorkspace); }

Buffer SwappedAttention::PackHeads(const Rows& rows, kernels::ConstArray from) const {
  const int64_t tokens = context_.shape.tokens;
  Buffer packed = Allocate(rows, MemoryKind::kWorkspace);
  for (const Columns& columns : rows.heads) {
    context_.backend.CopyRows(
        {.x = from.At(columns.first),
         .y = packed.array().At(columns.first / size()),
         .num_blocks = size(),
         .num_rows = tokens,
         .width = columns.width / size(),
         .x_strides = {.block = columns.width / size(), .row = rows.width},
         .y_strides = {.block = tokens * (rows.width / size()), .row = rows.width / size()}});
  }
  return packed;
}

Buffer SwappedAttention::UnpackHeads(const Rows& rows, Buffer packed, MemoryKind kind) const {
  const int64_t tokens = context_.shape.tokens;
  const Buffer received = Exchange(rows, std::move(packed));
  Buffer result = Allocate(rows, kind);
  for (const Columns& columns : rows.heads) {
    context_.backend.CopyRows(
        {.x = received.array().At(columns.first / size()),
         .y = result.array().At(columns.first),
         .num_blocks = size(),
         .num_rows = tokens,
         .width = columns.width / size(),
         .x_strides = {.block = tokens * (rows.width / size()), .row = rows.width / size()},
         .y_strides = {.block = columns.width / size(), .row = rows.width}});
  }
  return result;
}

kernels::CopyRowsArgs::Strides SwappedAttention::ByRank(const Rows& rows) const {
  const int64_t row = rows.width / size();
  return {.block = context_.shape.tokens * row, .row = context_.shape.sequence * row};
}

kernels::CopyRowsArgs::Strides SwappedAttention::InOrder(const Rows& rows) const {
  const int64_t row = rows.width / size();
  return {.block = context_.shape.sequence * row, .row = size() * context_.shape.sequence * row};
}

// The tokens of a rank lie together in their sequence.
void SwappedAttention::CopyTokens(const Rows& rows, kernels::CopyRowsArgs args) const {
  args.num_blocks = size();
  args.num_rows = context_.shape.batch;
  args.width = context_.shape.sequence * (rows.width / size());
  context_.backend.CopyRows(args);
}

Buffer SwappedAttention::PackTokens(const Rows& rows, kernels::ConstArray from) const {
  Buffer packed = Allocate(rows, MemoryKind::kWorkspace);
  CopyTokens(
      rows,
      {.x = from, .y = packed.array(), .x_strides = InOrder(rows), .y_strides = ByRank(rows)});
  return packed;
}

Buffer SwappedAttention::UnpackTokens(const Rows& rows, Buffer packed, MemoryKind kind) const {
  const Buffer received = Exchange(rows, std::move(packed));
  Buffer result = Allocate(rows, kind);
  CopyTokens(rows, {.x = received.array(),
                    .y = result.array(),
                    .x_strides = ByRank(rows),
                    .y_strides = InOrder(rows)});
  return result;
}

Buffer SwappedAttention::Exchange(const Rows& rows, Buffer packed) const {
  Buffer received = Allocate(rows, MemoryKind::kWorkspace);
  context_.context_comm.Run([&] {
    context_.groups.context->AllToAll(packed.data(), received.data(),
                                      context_.shape.tokens * (rows.width / size()),
                                      packed.dtype());
  });
  return received;
}

// Of rows of this rank's share of the heads, of whole sequences.
template <typename Args>
void SwappedAttention::SetHeads(Args& args) const {
  args.num_heads /= size();
  args.num_kv_heads /= size();
  args.query_rows = args.sequence;
  args.qkv_stride /= size();
  args.out_stride /= size();
  args.dropout.first_head += context_.shape.context_rank * args.num_heads;
  args.dropout.queries = kInOrder;
  args.documents.queries = kInOrder;
}

void SwappedAttention::Forward(Buffer qkv, CoreStash& stash) const {
  {
    Buffer packed = PackHeads(Qkv(), qkv.array());
    qkv.Reset();
    stash.qkv = UnpackTokens(Qkv(), std::move(packed), MemoryKind::kActivations);
  }
  stash.exchanged_output = Allocate(Output(), MemoryKind::kActivations);
  Recompute(stash);
  Buffer packed = PackTokens(Output(), stash.exchanged_output.array());
  stash.output = UnpackHeads(Output(), std::move(packed), MemoryKind::kActivations);
}

void SwappedAttention::Recompute(CoreStash& stash) const {
  const spec::LocalShape& shape = context_.shape;
  const int64_t sequence = size() * shape.sequence;
  const int64_t rows = shape.batch * (shape.heads / size()) * sequence;
  stash.stats = StatsKind() == base::AttentionStats::kLogSumExp
                    ? context_.Statistics(rows)
                    : context_.Activation(rows * sequence);
  const kernels::ConstArray qkv = stash.qkv.array();
  kernels::AttentionForwardArgs args =
      ForwardArgs({.num_queries = sequence, .num_keys = sequence}, kInOrder);
  SetHeads(args);
  args.q = qkv;
  args.k = qkv.At(KeyColumn() / size());
  args.v = qkv.At(ValueColumn() / size());
  args.out = stash.exchanged_output.array();
  args.stats = stash.stats.array();
  context_.backend.AttentionForward(args);
}

Buffer SwappedAttention::Backward(CoreStash& stash, Buffer doutput) const {
  const int64_t sequence = size() * context_.shape.sequence;
  Buffer packed = PackHeads(Output(), doutput.array());
  doutput.Reset();
  doutput = UnpackTokens(Output(), std::move(packed), MemoryKind::kWorkspace);
  Buffer dqkv = Allocate(Qkv(), MemoryKind::kWorkspace);
  const kernels::ConstArray qkv = stash.qkv.array();
  kernels::AttentionBackwardArgs args =
      BackwardArgs({.num_queries = sequence, .num_keys = sequence}, kInOrder);
  SetHeads(args);
  args.dqkv_stride /= size();
  args.dout = doutput.array();
  args.q = qkv;
  args.k = qkv.At(KeyColumn() / size());
  args.v = qkv.At(ValueColumn() / size());
  args.out = stash.exchanged_output.array();
  args.stats = stash.stats.array();
  args.dq = dqkv.array();
  args.dk = dqkv.array().At(KeyColumn() / size());
  args.dv = dqkv.array().At(ValueColumn() / size());
  context_.backend.AttentionBackward(args);
  doutput.Reset();
  packed = PackTokens(Qkv(), dqkv.array());
  dqkv.Reset();
  return UnpackHeads(Qkv(), std::move(packed), MemoryKind::kWorkspace);
}

}  // namespace tessera::engine
