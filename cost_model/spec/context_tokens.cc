#include "cost_model/spec/context_tokens.h"

namespace tessera::spec {

base::TokenPositions ContextPositions(const ParallelSpec& parallel, int64_t sequence_length,
                                      int context_rank) {
  const int64_t num_ranks = parallel.context_parallel_size;
  if (num_ranks == 1) return {};
  if (parallel.context_kind == ContextKind::kAllToAll) {
    return {.late_shift = context_rank * (sequence_length / num_ranks)};
  }
  const int64_t chunk = sequence_length / (2 * num_ranks);
  const int64_t late_chunk = 2 * num_ranks - 1 - context_rank;
  return {.num_early = chunk,
          .early_shift = context_rank * chunk,
          .late_shift = (late_chunk - 1) * chunk};
}

AttentionPart RingPart(int rank, int source, int64_t sequence) {
  if (source == rank) return {.num_queries = sequence, .num_keys = sequence};
  const int64_t chunk = sequence / 2;
  if (source < rank) {
    return {.num_queries = sequence, .num_keys = chunk, .mask = base::AttentionMask::kFull};
  }
  return {.first_query = chunk,
          .num_queries = chunk,
          .num_keys = sequence,
          .mask = base::AttentionMask::kFull};
}

int RingSourceForward(int rank, int step, int num_ranks) {
  return (rank - step + num_ranks) % num_ranks;
}

int RingSourceBackward(int rank, int step, int num_ranks) {
  return (rank - 1 - step + num_ranks) % num_ranks;
}

AttentionPart GatheredPart(int rank, int num_ranks, int64_t sequence, bool is_late) {
  const int64_t chunk = sequence / 2;
  const int64_t index = is_late ? 2 * num_ranks - 1 - rank : rank;
  return {
      .first_query = is_late ? chunk : 0, .num_queries = chunk, .num_keys = (index + 1) * chunk};
}

}  // namespace tessera::spec
