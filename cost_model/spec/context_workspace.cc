#include "cost_model/spec/context_workspace.h"

#include <algorithm>

namespace tessera::spec {
namespace {

constexpr int64_t kSumBytes = 4;

// Bytes of the buffers that come and go, by what a row of them holds.
struct Sizes {
  explicit Sizes(const LocalShape& shape)
      : element_bytes(shape.element_bytes),
        num_ranks(shape.context_parallel_size),
        queries(shape.tokens * shape.heads * shape.head_dim),
        keys_and_values(shape.tokens * shape.kv_heads * (shape.head_dim + shape.value_head_dim)),
        output(shape.tokens * shape.attention_width),
        qkv(shape.tokens * shape.qkv_width),
        statistics(shape.tokens * shape.heads),
        gathered(shape.sequence_parallel ? shape.tokens * shape.hidden : 0) {}

  const int64_t element_bytes, num_ranks;
  // Elements.
  const int64_t queries, keys_and_values, output, qkv, statistics, gathered;
};

CoreWorkspace Ring(const Sizes& s) {
  const int64_t blocks = 2 * s.keys_and_values * s.element_bytes;
  const int64_t output = s.output * s.element_bytes;
  const int64_t forward = blocks + kSumBytes * (s.output + s.statistics);
  return {.forward_bytes = forward,
          .recomputed_bytes = output + forward,
          .backward_bytes =
              std::max(output + blocks + kSumBytes * (s.queries + 3 * s.keys_and_values),
                       kSumBytes * (s.queries + s.keys_and_values) + s.qkv * s.element_bytes)};
}

CoreWorkspace Gathered(const Sizes& s) {
  const int64_t all = s.num_ranks * s.keys_and_values;
  const int64_t output = s.output * s.element_bytes;
  const int64_t forward = 2 * all * s.element_bytes;
  return {.forward_bytes = forward,
          .recomputed_bytes = output + forward,
          .backward_bytes = std::max(output + forward, output + s.qkv * s.element_bytes +
                                                           all * (s.element_bytes + kSumBytes))};
}

CoreWorkspace Swapped(const Sizes& s) {
  const int64_t copies = 2 * s.qkv * s.element_bytes;
  return {.forward_bytes = std::max(copies, (s.gathered + s.qkv) * s.element_bytes),
          .recomputed_bytes = s.output * s.element_bytes,
          .backward_bytes = copies};
}

}  // namespace

CoreWorkspace CoreWorkspaceOf(const ParallelSpec& parallel, const LocalShape& shape) {
  const Sizes sizes(shape);
  if (sizes.num_ranks == 1) {
    return {.recomputed_bytes = sizes.output * sizes.element_bytes,
            .backward_bytes = (sizes.output + sizes.qkv) * sizes.element_bytes};
  }
  switch (parallel.context_kind) {
    case ContextKind::kRing:
      return Ring(sizes);
    case ContextKind::kAllGather:
      return Gathered(sizes);
    case ContextKind::kAllToAll:
      return Swapped(sizes);
  }
  return {};
}

}  // namespace tessera::spec
