// Documents of samples on the device: the same as on the host.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "kernels/cuda/types.cuh"
#include "kernels/document_args.h"

namespace tessera::kernels::cuda {

// DocumentStarts.
struct DocumentRule {
  const int32_t* starts;  // or absent
  int64_t sequence;

  __device__ __forceinline__ int64_t PositionOf(int64_t sample, int64_t token) const {
    return starts == nullptr ? token : token - starts[sample * sequence + token];
  }
};

inline DocumentRule DocumentRuleOf(const DocumentStarts& documents) {
  return {.starts = documents.starts.As<int32_t>(), .sequence = documents.sequence};
}

// AttentionDocuments.
struct AttentionDocumentRule {
  const int32_t* starts = nullptr;
  int64_t sequence = 0;
  base::TokenPositions queries, keys;

  __device__ __forceinline__ bool IsOn() const { return starts != nullptr; }

  // The first key that a query may see, which does not lie before those of queries before it.
  // REQUIRES: IsOn().
  __device__ __forceinline__ int64_t FirstKeyOf(int64_t sample, int64_t query) const {
    const int64_t start = starts[sample * sequence + PositionOf(queries, query)];
    const int64_t early = max(start - keys.early_shift, int64_t{0});
    if (early < keys.num_early) return early;
    return max(max(start - keys.late_shift, keys.num_early), int64_t{0});
  }
};

inline AttentionDocumentRule AttentionDocumentRuleOf(const AttentionDocuments& documents) {
  return {.starts = documents.of_samples.starts.As<int32_t>(),
          .sequence = documents.of_samples.sequence,
          .queries = documents.queries,
          .keys = documents.keys};
}

}  // namespace tessera::kernels::cuda
