// Samples that hold several documents: where each token's begins, so that positions count from
// there and attention sees nothing before it.
#pragma once

#include <cstdint>

#include "cost_model/base/token_positions.h"
#include "kernels/array.h"

namespace tessera::kernels {

struct DocumentStarts {
  // int32 [samples, sequence]: of token i of a whole sample the first token of its document, which
  // never lies before that of token i - 1; absent: token 0.
  ConstArray starts;
  int64_t sequence = 0;  // tokens of a whole sample

  // In host memory: how many tokens of its document lie before a token of a sample.
  int64_t PositionOf(int64_t sample, int64_t token) const {
    return starts ? token - StartsOf(sample)[token] : token;
  }
  const int32_t* StartsOf(int64_t sample) const {
    return static_cast<const int32_t*>(starts.data) + sample * sequence;
  }
};

// Of attention between a part of the tokens of a sample and a part of its keys: a query sees no key
// before its document.
struct AttentionDocuments {
  DocumentStarts of_samples;
  base::TokenPositions queries, keys;

  explicit operator bool() const { return static_cast<bool>(of_samples.starts); }
  // In host memory: the first key that a query may see; there may be none.
  int64_t FirstKeyOf(int64_t sample, int64_t query) const {
    return keys.FirstFrom(of_samples.StartsOf(sample)[queries.Of(query)]);
  }
};

}  // namespace tessera::kernels
