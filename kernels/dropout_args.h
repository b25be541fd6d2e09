// Which elements dropout drops: by the counter-based draws of cost_model/base/philox.h, so that a
// mask depends on what an element is and not on who holds it, and the backward pass draws it again.
#pragma once

#include <cmath>
#include <cstdint>

#include "cost_model/base/philox.h"
#include "cost_model/base/token_positions.h"

namespace tessera::kernels {

// An element stays where its 32 bits are at least this: base::UniformAt, bits * 2^-32, is then at
// least the probability, and exactly then, as both are exact in double. REQUIRES: in [0, 1).
inline uint32_t DropThreshold(float probability) {
  return static_cast<uint32_t>(std::ceil(double{probability} * 0x1p32));
}
// What elements that stay are multiplied by.
inline float KeepScale(float probability) {
  return static_cast<float>(1.0 / (1.0 - double{probability}));
}

// Of rows of features: element (r, c) has draw first_index + RowOf(r) * index_stride + c.
struct RowDropout {
  float probability = 0;  // in [0, 1); 0: nothing is dropped
  base::PhiloxKey key = {};
  uint64_t first_index = 0, index_stride = 0;
  // Of tokens that ranks share: row r is token first_row + r of those that a context rank holds,
  // `sequence` of each sample; a whole sample has whole_sequence. With sequence 0 rows count as
  // they lie.
  int64_t first_row = 0, sequence = 0, whole_sequence = 0;
  base::TokenPositions positions;

  uint64_t RowOf(int64_t row) const {
    const int64_t token = first_row + row;
    if (sequence == 0) return static_cast<uint64_t>(token);
    return static_cast<uint64_t>(token / sequence * whole_sequence +
                                 positions.Of(token % sequence));
  }
};

// Of the probabilities of attention: that of query i and key j, by head h of sample b, has draw
// ((S * num_heads + H) * sequence + queries.Of(i)) * sequence + keys.Of(j) with S = first_sample +
// b and H = first_head + h.
struct AttentionDropout {
  float probability = 0;  // in [0, 1); 0: nothing is dropped
  base::PhiloxKey key = {};
  int64_t first_sample = 0, first_head = 0;
  int64_t num_heads = 0;  // of queries, on all ranks
  int64_t sequence = 0;   // tokens of a whole sample
  base::TokenPositions queries, keys;

  // The draw of a query's key at position 0.
  uint64_t RowOf(int64_t batch, int64_t head, int64_t query) const {
    const int64_t head_row = (first_sample + batch) * num_heads + first_head + head;
    return static_cast<uint64_t>(head_row * sequence + queries.Of(query)) *
           static_cast<uint64_t>(sequence);
  }
};

}  // namespace tessera::kernels
