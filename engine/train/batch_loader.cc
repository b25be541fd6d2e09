#include "engine/train/batch_loader.h"

#include <algorithm>

#include "cost_model/spec/context_tokens.h"

namespace tessera::engine {

int64_t CountTargetsIn(const Microbatch& microbatch, int64_t tokens) {
  return std::count_if(microbatch.labels, microbatch.labels + tokens,
                       [](int32_t label) { return label >= 0; });
}

BatchLoader::BatchLoader(const SampleSource& source, const spec::TrainingSpec& training,
                         const spec::ParallelSpec& parallel, const spec::RankCoord& coord)
    : source_(source),
      parallel_(parallel),
      rank_sequence_(training.sequence_length / parallel.context_parallel_size),
      positions_(spec::ContextPositions(parallel, training.sequence_length, coord.context)),
      masked_behind_(training.eod_mask_loss ? training.eod_token : -1),
      data_rank_(coord.data),
      sample_(static_cast<size_t>(training.sequence_length + 1)),
      tokens_(static_cast<size_t>(parallel.micro_batch_size * rank_sequence_)),
      labels_(tokens_.size()) {}

Microbatch BatchLoader::Load(int64_t consumed_samples, int microbatch) {
  const int64_t first = consumed_samples + spec::FirstSampleOf(parallel_, microbatch, data_rank_);
  for (int64_t i = 0; i < parallel_.micro_batch_size; ++i) {
    source_.Read(first + i, sample_.data());
    for (int64_t token = 0; token < rank_sequence_; ++token) {
      const auto from = static_cast<size_t>(positions_.Of(token));
      const auto to = static_cast<size_t>(i * rank_sequence_ + token);
      tokens_[to] = sample_[from];
      labels_[to] = sample_[from] == masked_behind_ ? -1 : sample_[from + 1];
    }
  }
  return {.tokens = tokens_.data(), .labels = labels_.data()};
}

}  // namespace tessera::engine
