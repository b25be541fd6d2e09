// How context-parallel ranks share out the tokens of a sequence, and whose keys meets whose queries
// when.
//
// A ring and gathered keys are balanced under the causal mask: of 2 cp chunks rank r holds chunk r
// and chunk 2 cp - 1 - r, so that all ranks have the same work, 1 / cp of it. Where heads are
// swapped for tokens each rank sees whole sequences, and holds chunk r of cp.
#pragma once

#include "cost_model/base/op.h"
#include "cost_model/base/token_positions.h"
#include "cost_model/spec/parallel_spec.h"

namespace tessera::spec {

// The rank whose operations are priced: of a ring the one in the middle, with as many other ranks'
// keys before its early chunk as behind (one more where their number is odd).
inline int PricedContextRank(const ParallelSpec& parallel) {
  return parallel.context_parallel_size / 2;
}

// Tokens of `context_rank`. REQUIRES: FindViolations is empty.
base::TokenPositions ContextPositions(const ParallelSpec& parallel, int64_t sequence_length,
                                      int context_rank);

// Which of a rank's queries one call of the attention kernel takes, and how many keys of a block,
// from its first on.
struct AttentionPart {
  int64_t first_query = 0;
  int64_t num_queries = 0;
  int64_t num_keys = 0;
  base::AttentionMask mask = base::AttentionMask::kCausal;
};

// A ring's step with the keys of rank `source`; every rank holds `sequence` tokens of a sequence.
// Its own block under the mask; of a rank before it the early half of the keys, with all queries;
// of one behind it all keys, with the late half of the queries.
AttentionPart RingPart(int rank, int source, int64_t sequence);

// Whose keys a rank of a ring of `num_ranks` has at each step, as each passes them to the next one.
// Forward it begins with its own. Backward it ends with them: the gradients of a rank's keys, added
// up by the others in turn, then arrive where the last part of them is made.
int RingSourceForward(int rank, int step, int num_ranks);
int RingSourceBackward(int rank, int step, int num_ranks);

// Queries of a rank's early or late chunk with the gathered keys up to its end.
AttentionPart GatheredPart(int rank, int num_ranks, int64_t sequence, bool is_late);

}  // namespace tessera::spec
