// Micro-batches of one data-parallel rank, cut from the global batch.
#pragma once

#include <cstdint>
#include <vector>

#include "cost_model/spec/parallel_spec.h"
#include "engine/data/sample_source.h"
#include "engine/layers/stage_model.h"

namespace tessera::engine {

class BatchLoader {
 public:
  // `source` must outlive the loader.
  BatchLoader(const SampleSource& source, const spec::TrainingSpec& training,
              const spec::ParallelSpec& parallel, int data_rank);

  // Micro-batch m of data rank d holds samples consumed + (m * dp + d) * micro_batch_size onwards:
  // the global batch does not depend on the layout. Valid until the next call.
  Microbatch Load(int64_t consumed_samples, int microbatch);

 private:
  const SampleSource& source_;
  int64_t micro_batch_size_;
  int64_t sequence_length_;
  int data_parallel_size_;
  int data_rank_;
  std::vector<int32_t> sample_;
  std::vector<int32_t> tokens_;
  std::vector<int32_t> labels_;
};

}  // namespace tessera::engine
