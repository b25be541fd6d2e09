// Which tokens a training sample reads: sequences laid end to end in some order (document index),
// cut into samples that share one token with their neighbour, read in some order (shuffle index).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace tessera::engine {

struct SampleStart {
  int64_t place = 0;   // in document_index
  int64_t offset = 0;  // token inside the sequence that stands there
  bool operator==(const SampleStart&) const = default;
};

// Sample k of the laid out tokens is tokens [k * s, k * s + s]; the engine's sample i is
// k = shuffle_index[i], or k = i where the index is in file order.
struct SampleIndex {
  int64_t sequence_length = 0;
  int64_t num_samples = 0;  // floor((tokens - 1) / s)
  int64_t num_epochs = 1;
  bool separate_final_epoch = false;
  std::vector<uint32_t> document_index;  // the sequence read at each place
  std::vector<int64_t> first_token;      // of each place, and the end of the last
  std::vector<uint32_t> shuffle_index;   // [num_samples]; empty in file order

  // Where sample k of the laid out tokens starts; k may be num_samples: the end of the last sample.
  SampleStart StartOf(int64_t k) const;
};

struct ShuffleOptions {
  int64_t num_samples = 0;  // at least so many; 0 means one epoch
  uint32_t seed = 1234;
};

// One pass over the sequences in file order. Memory: 12 bytes a sequence.
// REQUIRES: sequence_length + 1 tokens or more, fewer than 2^32 sequences.
SampleIndex MakeSequentialIndex(std::span<const int64_t> sequence_lengths, int64_t sequence_length);

// The index that Megatron-LM's GPTDataset builds for all of the data as its training split:
// - epochs E: the fewest that hold num_samples * s + 1 tokens;
// - the final epoch is kept apart (shuffled by itself, documents and samples) when the run needs
//   less than 80 % of its samples;
// - one generator, numpy's RandomState(seed), shuffles the documents, then the samples.
// The order depends on num_samples through E, as it does there.
// Memory: 12 bytes a sequence and epoch, 4 bytes a sample.
// Throws base::ConfigError for 2^32 - 2 samples or more, or as many sequences times epochs.
// Source: Megatron-LM, megatron/core/datasets/gpt_dataset.py and helpers.cpp.
// REQUIRES: sequence_length + 1 tokens or more.
SampleIndex MakeShuffledIndex(std::span<const int64_t> sequence_lengths, int64_t sequence_length,
                              const ShuffleOptions& options);

}  // namespace tessera::engine
