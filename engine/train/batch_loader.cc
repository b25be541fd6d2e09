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
      labels_(tokens_.size()),
      end_of_document_(static_cast<int32_t>(training.eod_token)),
      document_starts_(
          training.reset_position_ids || training.reset_attention_mask
              ? static_cast<size_t>(parallel.micro_batch_size * training.sequence_length)
              : 0) {}

void BatchLoader::FindDocuments(int32_t* starts) const {
  starts[0] = 0;
  for (size_t token = 1; token + 1 < sample_.size(); ++token) {
    const bool begins = sample_[token - 1] == end_of_document_;
    starts[token] = begins ? static_cast<int32_t>(token) : starts[token - 1];
  }
}

Microbatch BatchLoader::Load(int64_t consumed_samples, int microbatch) {
  const int64_t first = consumed_samples + spec::FirstSampleOf(parallel_, microbatch, data_rank_);
  for (int64_t i = 0; i < parallel_.micro_batch_size; ++i) {
    source_.Read(first + i, sample_.data());
    if (!document_starts_.empty()) {
      FindDocuments(document_starts_.data() + i * static_cast<int64_t>(sample_.size() - 1));
    }
    for (int64_t token = 0; token < rank_sequence_; ++token) {
      const auto from = static_cast<size_t>(positions_.Of(token));
      const auto to = static_cast<size_t>(i * rank_sequence_ + token);
      tokens_[to] = sample_[from];
      labels_[to] = sample_[from] == masked_behind_ ? -1 : sample_[from + 1];
    }
  }
  return {.tokens = tokens_.data(),
          .labels = labels_.data(),
          .document_starts = document_starts_.empty() ? nullptr : document_starts_.data()};
}

}  // namespace tessera::engine
