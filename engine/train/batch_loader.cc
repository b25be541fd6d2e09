#include "engine/train/batch_loader.h"

#include <algorithm>

namespace tessera::engine {

BatchLoader::BatchLoader(const SampleSource& source, const spec::TrainingSpec& training,
                         const spec::ParallelSpec& parallel, int data_rank)
    : source_(source),
      micro_batch_size_(parallel.micro_batch_size),
      sequence_length_(training.sequence_length),
      data_parallel_size_(parallel.data_parallel_size),
      data_rank_(data_rank),
      sample_(static_cast<size_t>(sequence_length_ + 1)),
      tokens_(static_cast<size_t>(micro_batch_size_ * sequence_length_)),
      labels_(tokens_.size()) {}

Microbatch BatchLoader::Load(int64_t consumed_samples, int microbatch) {
  const int64_t first =
      consumed_samples +
      (static_cast<int64_t>(microbatch) * data_parallel_size_ + data_rank_) * micro_batch_size_;
  for (int64_t i = 0; i < micro_batch_size_; ++i) {
    source_.Read(first + i, sample_.data());
    std::copy_n(sample_.begin(), sequence_length_, tokens_.begin() + i * sequence_length_);
    std::copy_n(sample_.begin() + 1, sequence_length_, labels_.begin() + i * sequence_length_);
  }
  return {.tokens = tokens_.data(), .labels = labels_.data()};
}

}  // namespace tessera::engine
