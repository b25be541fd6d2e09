#include "engine/layers/attention_core.h"

#include <cmath>

#include "cost_model/base/check.h"
#include "engine/layers/dropout.h"
#include "engine/layers/gathered_attention.h"
#include "engine/layers/lone_attention.h"
#include "engine/layers/ring_attention.h"
#include "engine/layers/swapped_attention.h"

namespace tessera::engine {

Buffer AttentionCore::AllocateQkv() const {
  return context_.Activation(context_.shape.tokens * context_.shape.qkv_width);
}

base::AttentionStats AttentionCore::StatsKind() const {
  return context_.parallel.attention == spec::AttentionKind::kFlash
             ? base::AttentionStats::kLogSumExp
             : base::AttentionStats::kProbabilities;
}

kernels::AttentionForwardArgs AttentionCore::ForwardArgs(const spec::AttentionPart& part,
                                                         const base::TokenPositions& keys) const {
  const spec::LocalShape& shape = context_.shape;
  return {.stats_kind = StatsKind(),
          .mask = part.mask,
          .batch = shape.batch,
          .sequence = part.num_queries,
          .num_heads = shape.heads,
          .num_kv_heads = shape.kv_heads,
          .head_dim = shape.head_dim,
          .key_sequence = part.num_keys,
          .query_rows = shape.sequence,
          .qkv_stride = shape.qkv_width,
          .out_stride = shape.attention_width,
          .scale = 1.0F / std::sqrt(static_cast<float>(shape.head_dim)),
          .dropout = DropoutOfAttention(context_, part, keys, place_),
          .documents = {.of_samples = context_.AttentionDocuments(),
                        .queries = shape.positions.From(part.first_query),
                        .keys = keys}};
}

kernels::AttentionBackwardArgs AttentionCore::BackwardArgs(const spec::AttentionPart& part,
                                                           const base::TokenPositions& keys) const {
  const kernels::AttentionForwardArgs forward = ForwardArgs(part, keys);
  return {.stats_kind = forward.stats_kind,
          .mask = forward.mask,
          .batch = forward.batch,
          .sequence = forward.sequence,
          .num_heads = forward.num_heads,
          .num_kv_heads = forward.num_kv_heads,
          .head_dim = forward.head_dim,
          .key_sequence = forward.key_sequence,
          .query_rows = forward.query_rows,
          .qkv_stride = forward.qkv_stride,
          .out_stride = forward.out_stride,
          .dqkv_stride = forward.qkv_stride,
          .scale = forward.scale,
          .dropout = forward.dropout,
          .documents = forward.documents};
}

void AttentionCore::CopyKeysAndValues(kernels::ConstArray qkv, kernels::Array block) const {
  context_.backend.CopyRows({.x = qkv.At(KeyColumn()),
                             .y = block,
                             .num_rows = context_.shape.tokens,
                             .width = KeyValueWidth(),
                             .x_strides = {.row = context_.shape.qkv_width},
                             .y_strides = {.row = KeyValueWidth()}});
}

void AttentionCore::CopyKeyValueGradients(kernels::ConstArray block, kernels::Array dqkv) const {
  context_.backend.CopyRows({.x = block,
                             .y = dqkv.At(KeyColumn()),
                             .num_rows = context_.shape.tokens,
                             .width = KeyValueWidth(),
                             .x_strides = {.row = KeyValueWidth()},
                             .y_strides = {.row = context_.shape.qkv_width}});
}

std::unique_ptr<AttentionCore> MakeAttentionCore(const LayerContext& context, std::string place) {
  if (context.shape.context_parallel_size == 1)
    return std::make_unique<LoneAttention>(context, std::move(place));
  switch (context.parallel.context_kind) {
    case spec::ContextKind::kRing:
      return std::make_unique<RingAttention>(context, std::move(place));
    case spec::ContextKind::kAllGather:
      return std::make_unique<GatheredAttention>(context, std::move(place));
    case spec::ContextKind::kAllToAll:
      return std::make_unique<SwappedAttention>(context, std::move(place));
  }
  base::FailCheck(__FILE__, __LINE__, "known context kind",
                  static_cast<int>(context.parallel.context_kind));
}

}  // namespace tessera::engine
